/* What every known call asks for, without Python's frames in between: the form of its tensors, and its launches.

   A tensor is read by functions that PyTorch promises to programs in C; where it lies in its Python object, and where
   its dispatch keys lie, ``native.py`` finds out. What the driver reads in a launch is put together anew for every
   launch, so that several threads may play the same launches. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

enum { MOST_TENSORS = 64, MOST_DIMENSIONS = 8, MOST_KEYS = 8, MOST_STEPS = 16, MOST_PARAMETERS = 64 };
enum { ROOM = 8192, LINE = 64, MAP_BYTES = 128, KEPT_MAPS = 64, ALLOCATED_BITS = 9 };

typedef int (*Ask32)(void *, int32_t *);
typedef int (*Ask64)(void *, int64_t *);
typedef int (*AskList)(void *, int64_t **);
typedef int (*AskPointer)(void *, void **);
/* A set of dispatch keys is one number in C++. */
typedef _Bool (*Includes)(uint64_t);
typedef _Bool (*Profiles)(void);
typedef int64_t (*Counts)(void);

/* The driver's CUlaunchAttribute and CUlaunchConfig. */
typedef struct { uint32_t id, none; int32_t value[16]; } Attribute;
typedef struct { uint32_t grid[3], block[3], shared; void *stream; Attribute *attributes; uint32_t count; } Config;
typedef int (*Enqueue)(const Config *, void *, void **, void **);

static struct {
    Py_ssize_t tensor, keys;
    PyObject *types[2];
    uint64_t ordinary[MOST_KEYS];
    int ordinaries;
    AskList sizes, strides;
    Ask64 dimensions;
    Ask32 type, device;
    AskPointer pointer;
    Enqueue enqueue;
    uint64_t usual;
    Includes includes;
    Profiles profiles;
    Counts modes;
} known;

/* An address that is written into a step: that of a tensor, and so many bytes more; of no tensor where that is -1. */
typedef struct { Py_ssize_t at; int tensor; int64_t offset; } Pointer;
/* A tensor map of such an address. ``encode`` makes one, of which the last ones are kept here by their address. */
typedef struct { Pointer pointer; PyObject *encode; uint64_t *addresses; char *maps; } Map;
typedef struct {
    void *function;
    uint32_t programs, threads, shared, overlaps;
    Py_ssize_t bytes, parameter_at[MOST_PARAMETERS];
    int parameters, pointers, maps;
    char *written;
    Pointer *pointer;
    Map *map;
} Step;
typedef struct { PyObject_HEAD int steps, tensors; Step step[MOST_STEPS]; } Launches;

static void *handle_of(PyObject *tensor) { return (char *)tensor + known.tensor; }

/* ------------------------------------------------------------------------------------------------------ forms */

PyDoc_STRVAR(is_quiet_text, "is_quiet(): whether this thread has no mode, transform or profiler; False may be a mistake.");

static PyObject *is_quiet(PyObject *self, PyObject *ignored)
{
    if (!known.includes || known.profiles() || known.modes() > 0)
        Py_RETURN_FALSE;
    for (int bit = 0; bit < 64; bit++)
        if (!(known.usual >> bit & 1) && known.includes((uint64_t)1 << bit))
            Py_RETURN_FALSE;
    Py_RETURN_TRUE;
}

static int is_ordinary(PyObject *tensor)
{
    if ((PyObject *)Py_TYPE(tensor) != known.types[0] && (PyObject *)Py_TYPE(tensor) != known.types[1])
        return 0;
    uint64_t keys = *(uint64_t *)(*(char **)handle_of(tensor) + known.keys);
    for (int i = 0; i < known.ordinaries; i++)
        if (keys == known.ordinary[i])
            return 1;
    return 0;
}

PyDoc_STRVAR(form_of_text,
"form_of(tensors): sizes, strides, types, devices, and which of them are the same, as bytes.\n\n"
"None if one is not ordinary, or does not begin at a multiple of 16 bytes.");

static PyObject *form_of(PyObject *self, PyObject *tensors)
{
    int64_t words[MOST_TENSORS * (1 + 2 * MOST_DIMENSIONS)], *next = words, *list;
    uintptr_t bits = 0;
    void *places[MOST_TENSORS];
    if (!PyTuple_Check(tensors) || PyTuple_GET_SIZE(tensors) > MOST_TENSORS)
        return PyErr_Format(PyExc_TypeError, "form_of() takes a tuple of up to 64 tensors");
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tensors); i++) {
        PyObject *tensor = PyTuple_GET_ITEM(tensors, i);
        if (!is_ordinary(tensor))
            Py_RETURN_NONE;
        void *handle = handle_of(tensor);
        int64_t dimensions, same = 0;
        int32_t type, device;
        if (known.dimensions(handle, &dimensions) || dimensions > MOST_DIMENSIONS || known.type(handle, &type)
            || known.device(handle, &device) || known.pointer(handle, &places[i]))
            Py_RETURN_NONE;
        while (places[same] != places[i])
            same++;
        bits |= (uintptr_t)places[i];
        *next++ = same << 48 | (int64_t)(type & 0xffff) << 32 | (int64_t)(device & 0xffff) << 16 | dimensions;
        if (known.sizes(handle, &list))
            Py_RETURN_NONE;
        memcpy(next, list, dimensions * sizeof *next), next += dimensions;
        if (known.strides(handle, &list))
            Py_RETURN_NONE;
        memcpy(next, list, dimensions * sizeof *next), next += dimensions;
    }
    if (bits % 16)
        Py_RETURN_NONE;
    return PyBytes_FromStringAndSize((char *)words, (char *)next - (char *)words);
}

/* --------------------------------------------------------------------------------------------------- launches */

/* A tensor map of an address, kept or encoded; NULL with an exception. */
static char *map_of(Map *map, uint64_t address)
{
    size_t place = (address >> ALLOCATED_BITS ^ address >> (ALLOCATED_BITS + 6)) % KEPT_MAPS;
    char *kept = map->maps + place * MAP_BYTES;
    if (address && map->addresses[place] == address)
        return kept;
    PyObject *encoded = PyObject_CallFunction(map->encode, "K", (unsigned long long)address);
    if (!encoded)
        return NULL;
    void *from = PyLong_AsVoidPtr(encoded);
    if (from) {
        memcpy(kept, from, MAP_BYTES);
        map->addresses[place] = address;
    } else if (!PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "a tensor map at no address");
    Py_DECREF(encoded);
    return from ? kept : NULL;
}

static int64_t address_of(const Pointer *pointer, void **tensors)
{
    return pointer->tensor < 0 ? 0 : (int64_t)tensors[pointer->tensor] + pointer->offset;
}

PyDoc_STRVAR(launches_text,
"Launches(steps): launches that are done again for other tensors. Call it with a tuple of tensors and a stream.\n\n"
"A step is (function, programs, threads, shared bytes, overlaps, written, places of parameters, pointers, maps):\n"
"``written`` are all parameters, a pointer is (place, tensor, offset), and a map (place, tensor, offset, encode).\n"
"The call gives the driver's status, which is 0 where all was launched.");

static PyObject *play(PyObject *object, PyObject *arguments, PyObject *named)
{
    Launches *self = (Launches *)object;
    PyObject *given;
    unsigned long long stream;
    void *tensors[MOST_TENSORS];
    char room[ROOM + LINE], *free = (char *)(((uintptr_t)room + LINE - 1) / LINE * LINE), *begins[MOST_STEPS];
    if (!PyArg_ParseTuple(arguments, "O!K", &PyTuple_Type, &given, &stream))
        return NULL;
    if (PyTuple_GET_SIZE(given) < self->tensors)
        return PyErr_Format(PyExc_ValueError, "too few tensors");
    for (int i = 0; i < self->tensors; i++) {
        PyObject *tensor = PyTuple_GET_ITEM(given, i);
        if (!PyObject_TypeCheck(tensor, (PyTypeObject *)known.types[0]) || known.pointer(handle_of(tensor), &tensors[i]))
            return PyErr_Format(PyExc_ValueError, "no tensor, or one without an address");
    }
    for (int s = 0; s < self->steps; s++) {
        Step *step = &self->step[s];
        begins[s] = free, free += (step->bytes + LINE - 1) / LINE * LINE;
        memcpy(begins[s], step->written, step->bytes);
        for (int i = 0; i < step->pointers; i++) {
            int64_t address = address_of(&step->pointer[i], tensors);
            memcpy(begins[s] + step->pointer[i].at, &address, sizeof address);
        }
        for (int i = 0; i < step->maps; i++) {
            char *map = map_of(&step->map[i], address_of(&step->map[i].pointer, tensors));
            if (!map)
                return NULL;
            memcpy(begins[s] + step->map[i].pointer.at, map, MAP_BYTES);
        }
    }
    int status = 0;
    Py_BEGIN_ALLOW_THREADS
    for (int s = 0; s < self->steps && !status; s++) {
        Step *step = &self->step[s];
        if (!step->programs)
            continue;
        void *parameters[MOST_PARAMETERS];
        for (int i = 0; i < step->parameters; i++)
            parameters[i] = begins[s] + step->parameter_at[i];
        /* Programmatic stream serialization: it may begin before the launch before it has ended. */
        Attribute overlaps = {6, 0, {1}};
        Config config = {{step->programs, 1, 1}, {step->threads, 1, 1}, step->shared, (void *)(uintptr_t)stream,
                         step->overlaps ? &overlaps : NULL, step->overlaps ? 1 : 0};
        status = known.enqueue(&config, step->function, parameters, NULL);
    }
    Py_END_ALLOW_THREADS
    return PyLong_FromLong(status);
}

static int fill_pointer(Pointer *pointer, PyObject *from, Py_ssize_t bytes, PyObject **encode)
{
    PyObject *ignored;
    long long offset;
    if (!PyTuple_Check(from))
        return PyErr_Format(PyExc_TypeError, "a place is a tuple"), 0;
    if (!PyArg_ParseTuple(from, encode ? "niLO" : "niL", &pointer->at, &pointer->tensor, &offset, encode ? encode : &ignored))
        return 0;
    pointer->offset = offset;
    Py_ssize_t size = encode ? MAP_BYTES : (Py_ssize_t)sizeof(void *);
    if (pointer->at >= 0 && pointer->at <= bytes - size && pointer->tensor < MOST_TENSORS)
        return 1;
    PyErr_SetString(PyExc_ValueError, "a place outside of the parameters");
    return 0;
}

static int fill_step(Step *step, PyObject *from)
{
    if (!PyTuple_Check(from))
        return PyErr_Format(PyExc_TypeError, "a step is a tuple"), 0;
    unsigned long long function;
    const char *written;
    PyObject *places, *pointers, *maps;
    if (!PyArg_ParseTuple(from, "KIIIpy#O!O!O!", &function, &step->programs, &step->threads, &step->shared,
                          &step->overlaps, &written, &step->bytes, &PyTuple_Type, &places, &PyTuple_Type, &pointers,
                          &PyTuple_Type, &maps))
        return 0;
    step->function = (void *)(uintptr_t)function;
    if (PyTuple_GET_SIZE(places) > MOST_PARAMETERS)
        return PyErr_Format(PyExc_ValueError, "too many parameters"), 0;
    step->written = PyMem_Malloc(step->bytes + 1);
    step->pointer = PyMem_Calloc(PyTuple_GET_SIZE(pointers) + 1, sizeof *step->pointer);
    step->map = PyMem_Calloc(PyTuple_GET_SIZE(maps) + 1, sizeof *step->map);
    if (!step->written || !step->pointer || !step->map)
        return PyErr_NoMemory(), 0;
    memcpy(step->written, written, step->bytes);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(places); i++) {
        step->parameter_at[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(places, i));
        if (PyErr_Occurred())
            return 0;
        if (step->parameter_at[i] < 0 || step->parameter_at[i] >= step->bytes)
            return PyErr_Format(PyExc_ValueError, "a parameter outside of the parameters"), 0;
    }
    step->parameters = (int)PyTuple_GET_SIZE(places);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(pointers); i++, step->pointers++)
        if (!fill_pointer(&step->pointer[i], PyTuple_GET_ITEM(pointers, i), step->bytes, NULL))
            return 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(maps); i++) {
        Map *map = &step->map[i];
        PyObject *encode;
        if (!fill_pointer(&map->pointer, PyTuple_GET_ITEM(maps, i), step->bytes, &encode))
            return 0;
        step->maps++;
        map->encode = Py_NewRef(encode);
        map->addresses = PyMem_Calloc(KEPT_MAPS, sizeof *map->addresses);
        map->maps = PyMem_Malloc(KEPT_MAPS * MAP_BYTES);
        if (!map->addresses || !map->maps)
            return PyErr_NoMemory(), 0;
    }
    return 1;
}

static PyObject *launches_new(PyTypeObject *type, PyObject *arguments, PyObject *named)
{
    PyObject *steps;
    if (!PyArg_ParseTuple(arguments, "O!", &PyTuple_Type, &steps))
        return NULL;
    Launches *self = (Launches *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    Py_ssize_t room = 0, count = PyTuple_GET_SIZE(steps);
    for (Py_ssize_t i = 0; i < count && i < MOST_STEPS; i++) {
        self->steps++;
        if (!fill_step(&self->step[i], PyTuple_GET_ITEM(steps, i))) {
            Py_DECREF(self);
            return NULL;
        }
        Step *step = &self->step[i];
        room += (step->bytes + LINE - 1) / LINE * LINE;
        for (int j = 0; j < step->pointers; j++)
            self->tensors = Py_MAX(self->tensors, step->pointer[j].tensor + 1);
        for (int j = 0; j < step->maps; j++)
            self->tensors = Py_MAX(self->tensors, step->map[j].pointer.tensor + 1);
    }
    if (count > MOST_STEPS || room > ROOM || !known.enqueue) {
        PyErr_SetString(PyExc_ValueError, "too many launches, or no driver");
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static void launches_free(PyObject *object)
{
    Launches *self = (Launches *)object;
    PyTypeObject *type = Py_TYPE(object);
    for (int s = 0; s < self->steps; s++) {
        Step *step = &self->step[s];
        for (int i = 0; i < step->maps; i++) {
            Py_XDECREF(step->map[i].encode);
            PyMem_Free(step->map[i].addresses);
            PyMem_Free(step->map[i].maps);
        }
        PyMem_Free(step->written);
        PyMem_Free(step->pointer);
        PyMem_Free(step->map);
    }
    type->tp_free(object);
    Py_DECREF(type);
}

/* ----------------------------------------------------------------------------------------------------- module */

PyDoc_STRVAR(set_up_text,
"set_up(tensor, keys, types, ordinary, functions, usual, more): where to find what; before anything else is called.\n\n"
"``usual``: dispatch keys that a thread may include; ``more`` functions are those of is_quiet(), or zeros.");

static PyObject *set_up(PyObject *self, PyObject *arguments)
{
    PyObject *ordinary;
    unsigned long long at[10], usual;
    if (!PyArg_ParseTuple(arguments, "nn(OO)O!(KKKKKKK)K(KKK)", &known.tensor, &known.keys, &known.types[0], &known.types[1],
                          &PyTuple_Type, &ordinary, &at[0], &at[1], &at[2], &at[3], &at[4], &at[5], &at[6],
                          &usual, &at[7], &at[8], &at[9]))
        return NULL;
    Py_INCREF(known.types[0]), Py_INCREF(known.types[1]);
    known.ordinaries = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(ordinary) && i < MOST_KEYS; i++)
        known.ordinary[known.ordinaries++] = PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(ordinary, i));
    known.sizes = (AskList)(uintptr_t)at[0], known.strides = (AskList)(uintptr_t)at[1];
    known.dimensions = (Ask64)(uintptr_t)at[2], known.type = (Ask32)(uintptr_t)at[3];
    known.device = (Ask32)(uintptr_t)at[4], known.pointer = (AskPointer)(uintptr_t)at[5];
    known.enqueue = (Enqueue)(uintptr_t)at[6], known.usual = usual;
    known.includes = (Includes)(uintptr_t)at[7], known.profiles = (Profiles)(uintptr_t)at[8];
    known.modes = (Counts)(uintptr_t)at[9];
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"set_up", set_up, METH_VARARGS, set_up_text},
    {"form_of", form_of, METH_O, form_of_text},
    {"is_quiet", is_quiet, METH_NOARGS, is_quiet_text},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot launches_slots[] = {
    {Py_tp_new, launches_new}, {Py_tp_call, play}, {Py_tp_dealloc, launches_free}, {Py_tp_doc, (void *)launches_text},
    {0, NULL},
};
static PyType_Spec launches_spec = {
    "attenio_native.Launches", sizeof(Launches), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, launches_slots,
};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "attenio_native", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_attenio_native(void)
{
    PyObject *made = PyModule_Create(&module), *type = PyType_FromSpec(&launches_spec);
    if (!made || !type || PyModule_AddObjectRef(made, "Launches", type)) {
        Py_XDECREF(made);
        made = NULL;
    }
    Py_XDECREF(type);
    return made;
}
