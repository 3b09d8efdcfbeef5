// Asks the WebAssembly module: node ask_module.js MODULE < requests > answers, one JSON text a
// line: each request an object, each answer the module's text as a string. "logs" of a request are
// files, which are fed in pieces; "keep_logs" keeps those of the request before. Exits 1 when the module imports anything.
"use strict";
const fs = require("fs");

const compiled = new WebAssembly.Module(fs.readFileSync(process.argv[2]));
const imports = WebAssembly.Module.imports(compiled);
if (imports.length > 0) {
    console.error("imports: " + imports.map((one) => one.module + "." + one.name).join(", "));
    process.exit(1);
}
const PIECE_BYTES = 1000;
const module_ = new WebAssembly.Instance(compiled, {}).exports;

function pass(bytes, call) {
    const at = module_.anyflash_alloc(bytes.length + 1);
    Buffer.from(module_.memory.buffer, at, bytes.length).set(bytes);
    const answer = call(at, bytes.length);
    module_.anyflash_free(at);
    return answer;
}

function feed(log) {
    const bytes = fs.readFileSync(log.path);
    const failed = pass(Buffer.from(log.name, "utf8"), module_.anyflash_log_begin);
    for (let at = 0; !failed && at < bytes.length; at += PIECE_BYTES)
        pass(bytes.subarray(at, at + PIECE_BYTES), module_.anyflash_log_feed);
}

// Bad requests are passed on, too.
function parsed(request) {
    try {
        return JSON.parse(request);
    } catch {
        return {};
    }
}

function ask(request) {
    const { logs, keep_logs } = parsed(request);
    if (!keep_logs)
        module_.anyflash_log_clear();
    (logs ?? []).forEach(feed);
    const answer = pass(Buffer.from(request, "utf8"), module_.anyflash_answer);
    const whole = Buffer.from(module_.memory.buffer, answer);
    return whole.subarray(0, whole.indexOf(0)).toString("utf8");
}

for (const line of fs.readFileSync(0, "utf8").split("\n"))
    if (line !== "")
        console.log(JSON.stringify(ask(line)));
