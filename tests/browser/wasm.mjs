// Runs a Python file in Pyodide under Node: node wasm.mjs SITE FILE, with a built explorer as SITE.
import fs from "fs";
import path from "path";
import { pathToFileURL } from "url";

const [site, file] = process.argv.slice(2).map((each) => path.resolve(each));
const { loadPyodide } = await import(pathToFileURL(path.join(site, "pyodide/pyodide.mjs")));
const python = await loadPyodide({ indexURL: path.join(site, "pyodide/") });
for (const name of ["numpy.zip", "attenio.zip"]) {
  const packed = new Uint8Array(fs.readFileSync(path.join(site, name)));
  python.unpackArchive(packed, "zip", { extractDir: "/lib/python3.12/site-packages" });
}
try {
  python.runPython(fs.readFileSync(file, "utf8"));
} catch (problem) {
  console.log(`FAILED ${String(problem.message).slice(-2000)}`);
  process.exit(1);
}
