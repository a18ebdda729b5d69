/* Anneals a patchwork: which of P devices computes the pairs of two blocks, for every KV head. See patches.py.
 *
 *   patches P heads 1 blocks  row-out row-back key-out key-back  seconds seed  excess  balance0 balance1  heat0 heat1
 *           homes moves-homes file
 *
 * Words are those of a block of a row (all query heads of a group) and of a key, on their way and back. What is made
 * less: words of all devices, ``excess`` for each word above TARGET that a device sends and nobody could pass on for it,
 * and ``balance`` for each pair of blocks by which its work differs from the mean. Homes: 0 in order, 1 zigzag. INIT
 * names a table to begin with (of as many or fewer blocks); with ROWS set everyone begins with own rows.
 */
// cells: P devices, m heads, X row subgroups per head, B blocks. anneal.
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <string.h>
#include <time.h>
static unsigned long long s0=88172645463325252ULL;
static inline unsigned long long rn(){s0^=s0<<13;s0^=s0>>7;s0^=s0<<17;return s0;}
static inline double ru(){return (rn()>>11)*(1.0/9007199254740992.0);}
static inline int ri(int n){return (int)(rn()%(unsigned)n);}
int P,m,X,B; double ro,rb,ko,kb; // per block words: row of one subgroup out/back, key out/back
int own[512];
short *A; // a[h][x][i][j]
int *cR; // [p][h][x][i]
int *cK; // [p][h][j]
double *S,*W; double tot; double *F; int *U; // F fixed keys sends
#define IA(h,x,i,j) ((((h)*X+(x))*B+(i))*B+(j))
#define IR(p,h,x,i) ((((p)*m+(h))*X+(x))*B+(i))
#define IK(p,h,j) (((p)*m+(h))*B+(j))
double wt(int i,int j){return i==j?0.5:1.0;}
static inline void addc(int p,int h,int x,int i,int j){
  if(cR[IR(p,h,x,i)]++==0 && own[i]!=p){S[own[i]]+=ro;S[p]+=rb;tot+=ro+rb;}
  if(cK[IK(p,h,j)]++==0 && own[j]!=p){S[own[j]]+=ko;S[p]+=kb;tot+=ko+kb;if(U[h*B+j]++>0)F[own[j]]+=ko;}
  W[p]+=wt(i,j);A[IA(h,x,i,j)]=p;
}
static inline void remc(int p,int h,int x,int i,int j){
  if(--cR[IR(p,h,x,i)]==0 && own[i]!=p){S[own[i]]-=ro;S[p]-=rb;tot-=ro+rb;}
  if(--cK[IK(p,h,j)]==0 && own[j]!=p){S[own[j]]-=ko;S[p]-=kb;tot-=ko+kb;if(--U[h*B+j]>0)F[own[j]]-=ko;}
  W[p]-=wt(i,j);
}
double share,lam,mu,target;
void recount(){
  for(int p=0;p<P;p++)S[p]=F[p]=0; tot=0; 
  for(int h=0;h<m;h++)for(int b=0;b<B;b++){int u=0;
    for(int p=0;p<P;p++)if(p!=own[b]){ if(cK[IK(p,h,b)]){S[own[b]]+=ko;S[p]+=kb;tot+=ko+kb;if(u++)F[own[b]]+=ko;}
      for(int x=0;x<X;x++)if(cR[IR(p,h,x,b)]){S[own[b]]+=ro;S[p]+=rb;tot+=ro+rb;}}
    U[h*B+b]=u;}
}
double energy(){
  double e=0,mx=0;
  for(int p=0;p<P;p++){double d=(W[p]-share);  d=fabs(d); e+=d; if(S[p]-F[p]>target)mx+=S[p]-F[p]-target;}
  return tot+mu*mx+lam*e;
}
typedef struct {int h,x,i,j;short old;} mv;
mv *buf; int nb;
static inline void mov(int h,int x,int i,int j,int q){
  int p=A[IA(h,x,i,j)]; if(p==q) return;
  buf[nb].h=h;buf[nb].x=x;buf[nb].i=i;buf[nb].j=j;buf[nb].old=p;nb++;
  remc(p,h,x,i,j);addc(q,h,x,i,j);
}
int main(int c,char**v){
  // args: P m X B ro rb ko kb secs seed mu lam0 lam1 T0 T1 homes(0 order,1 zigzag,2 file) outfile
  P=atoi(v[1]);m=atoi(v[2]);X=atoi(v[3]);B=atoi(v[4]);ro=atof(v[5]);rb=atof(v[6]);ko=atof(v[7]);kb=atof(v[8]);
  double secs=atof(v[9]);s0^=0x9E3779B97F4A7C15ULL*(atoi(v[10])+1);for(int i=0;i<20;i++)rn();
  mu=atof(v[11]);double l0=atof(v[12]),l1=atof(v[13]),T0=atof(v[14]),T1=atof(v[15]);int hm=atoi(v[16]);
  int mvhome=atoi(v[17]); target=getenv("TARGET")?atof(getenv("TARGET")):1e9;
  int per=B/P;
  for(int b=0;b<B;b++) own[b]= hm==0? b/per : (hm==1? ((b/(per/2>0?per/2:1))<P? b/(per/2):2*P-1-b/(per/2)) : -1);
  if(hm>=2){FILE*f=fopen(v[19],"r");for(int b=0;b<B;b++)if(fscanf(f,"%d",&own[b])!=1)return 1;fclose(f);}
  A=malloc(sizeof(short)*m*X*B*B);cR=calloc(P*m*X*B,sizeof(int));cK=calloc(P*m*B,sizeof(int));
  S=calloc(P,8);F=calloc(P,8);U=calloc(m*B,sizeof(int));W=calloc(P,8);buf=malloc(sizeof(mv)*m*X*B*B);
  int D=P>m?P/m:1;
  share=(double)m*X*B*B/2/P;
  for(int h=0;h<m;h++)for(int x=0;x<X;x++)for(int i=0;i<B;i++)for(int j=0;j<=i;j++){
    int p; if(getenv("ROWS")) p=own[i]; else if(own[i]==own[j]) p=own[i]; else if(P>m) p=h*D+ (int)(((double)i*i/B/B)*D)%D; else p=h%P; addc(p,h,x,i,j);}
  if(getenv("INIT")){FILE*f=fopen(getenv("INIT"),"r");int p0,m0,x0,b0;if(fscanf(f,"%d %d %d %d",&p0,&m0,&x0,&b0)!=4)return 1;int c0=B/b0;
    int*o0=malloc(sizeof(int)*b0);for(int b=0;b<b0;b++)if(fscanf(f,"%d",&o0[b])!=1)return 1;
    for(int h=0;h<m;h++)for(int x=0;x<X;x++)for(int i=0;i<B;i++)for(int j=0;j<=i;j++)remc(A[IA(h,x,i,j)],h,x,i,j);
    for(int b=0;b<B;b++)own[b]=o0[b/c0];
    short*a0=malloc(sizeof(short)*m0*b0*b0);for(int h=0;h<m0;h++)for(int i=0;i<b0;i++)for(int j=0;j<=i;j++){int t;if(fscanf(f,"%d",&t)!=1)return 1;a0[(h*b0+i)*b0+j]=t;}
    fclose(f);
    for(int h=0;h<m;h++)for(int x=0;x<X;x++)for(int i=0;i<B;i++)for(int j=0;j<=i;j++)addc(a0[((h%m0)*b0+i/c0)*b0+j/c0],h,x,i,j);
    recount();}
  lam=l0;
  double e=energy(),best=1e99;short*bA=malloc(sizeof(short)*m*X*B*B);int bo[512];
  clock_t t0=clock();double T=T0,fr=0;long it=0,acc=0;double bm=0,bx=0,bw=0;
  for(;;){
    if((it&255)==0){fr=(double)(clock()-t0)/CLOCKS_PER_SEC/secs;if(fr>=1)break;T=T0*pow(T1/T0,fr);lam=l0*pow(l1/l0,fr);e=energy();}
    it++;nb=0;int sw0=-1,sw1=-1;
    int h=ri(m),x=ri(X),i=ri(B),j=ri(i+1);int k=ri(100);int p=A[IA(h,x,i,j)];int q;
    // choose q: often a device already having row or key
    int z=ri(10); q=-1;
    if(z<4){int i2=i,j2=ri(i+1);q=A[IA(h,x,i2,j2)];}
    else if(z<7){int i2=j+ri(B-j);q=A[IA(h,ri(X),i2,j)];}
    else if(z<8){q=own[ri(2)?i:j];}
    else q=ri(P);
    if(mvhome&&k<2){
      int b1=ri(B),b2=ri(3)?ri(B):(b1+1)%B;int p1=own[b1],p2=own[b2];if(p1==p2)continue;
      own[b1]=p2;own[b2]=p1; recount();
      double e2=energy();
      if(e2<=e||ru()<exp((e-e2)/T)){e=e2;acc++;}
      else {own[b1]=p1;own[b2]=p2;recount();}
    } else {
    if(q==p) continue;
    if(k<43){mov(h,x,i,j,q);}
    else if(k<62){ // all of row i that p has
      for(int jj=0;jj<=i;jj++) if(A[IA(h,x,i,jj)]==p) mov(h,x,i,jj,q);
    } else if(k<76){ // key j of p, all rows/subgroups
      for(int xx=0;xx<X;xx++)for(int ii=j;ii<B;ii++) if(A[IA(h,xx,ii,j)]==p) mov(h,xx,ii,j,q);
    } else if(k<84){ // row i of p, exchanging with another row of q in same head
      int i2=ri(B);
      for(int jj=0;jj<=i;jj++) if(A[IA(h,x,i,jj)]==p) mov(h,x,i,jj,q);
      int n0=nb;(void)n0;
      for(int jj=0;jj<=i2;jj++) if(i2!=i&&A[IA(h,x,i2,jj)]==q) mov(h,x,i2,jj,p);
    } else if(k<90){ // key exchange
      int j2=ri(B);if(j2==j)continue;
      for(int xx=0;xx<X;xx++)for(int ii=j;ii<B;ii++) if(A[IA(h,xx,ii,j)]==p) mov(h,xx,ii,j,q);
      for(int xx=0;xx<X;xx++)for(int ii=j2;ii<B;ii++) if(A[IA(h,xx,ii,j2)]==q) mov(h,xx,ii,j2,p);
    } else if(k<94){ // single swap with another cell of q
      int i2=ri(B),j2=ri(i2+1),x2=ri(X),h2=ri(m);int tries=0;
      while(A[IA(h2,x2,i2,j2)]!=q&&tries++<30){i2=ri(B);j2=ri(i2+1);}
      if(A[IA(h2,x2,i2,j2)]!=q)continue;
      mov(h,x,i,j,q);mov(h2,x2,i2,j2,p);
    } else if(k<97){ // row i all subgroups
      for(int xx=0;xx<X;xx++)for(int jj=0;jj<=i;jj++) if(A[IA(h,xx,i,jj)]==p) mov(h,xx,i,jj,q);
    } else if(k<98){ // all rows of a range, whoever has them
      int i2=ri(B);int a0=i<i2?i:i2,a1=i<i2?i2:i;int dg=ri(2);
      if(a1-a0>6&&ri(2))a1=B-1;
      for(int xx=0;xx<X;xx++)if(ri(2)||xx==x)for(int ii=a0;ii<=a1;ii++)for(int jj=0;jj<=ii-dg;jj++) mov(h,xx,ii,jj,q);
    } else { // rectangle
      int i2=ri(B),j2=ri(B);int a0=i<i2?i:i2,a1=i<i2?i2:i,b0=j<j2?j:j2,b1=j<j2?j2:j;
      for(int ii=a0;ii<=a1;ii++)for(int jj=b0;jj<=b1&&jj<=ii;jj++) if(A[IA(h,x,ii,jj)]==p) mov(h,x,ii,jj,q);
    }
    if(!nb)continue;
    double e2=energy();
    if(e2<=e||ru()<exp((e-e2)/T)){e=e2;acc++;}
    else {for(int u=nb-1;u>=0;u--){int q2=A[IA(buf[u].h,buf[u].x,buf[u].i,buf[u].j)];remc(q2,buf[u].h,buf[u].x,buf[u].i,buf[u].j);addc(buf[u].old,buf[u].h,buf[u].x,buf[u].i,buf[u].j);}}
    }
    if(fr>.3){ double sl=lam;lam=l1;double e3=energy();lam=sl; if(e3<best-1e-9){best=e3;memcpy(bA,A,sizeof(short)*m*X*B*B);memcpy(bo,own,sizeof own);
      bm=tot/P;bx=0;bw=0;for(int p=0;p<P;p++){if(S[p]-F[p]>bx)bx=S[p]-F[p];if(W[p]/share>bw)bw=W[p]/share;}}}
  }
  fprintf(stderr,"P%d m%d X%d B%d it %ld acc %ld mean %.4f max %.4f work %.4f (units: n/P blocks: mean %.4f max %.4f)\n",P,m,X,B,it,acc,bm,bx,bw,bm*P/B,bx*P/B);
  FILE*f=fopen(v[18],"w");fprintf(f,"%d %d %d %d\n",P,m,X,B);for(int b=0;b<B;b++)fprintf(f,"%d ",bo[b]);fprintf(f,"\n");
  for(int h=0;h<m;h++)for(int x2=0;x2<X;x2++)for(int i=0;i<B;i++){for(int j=0;j<=i;j++)fprintf(f,"%d ",bA[IA(h,x2,i,j)]);fprintf(f,"\n");}
  fclose(f);return 0;
}
