// The manifests of share/kubernetes, against the types of Kubernetes' own API. Its validators let unknown keys pass, as they never look
// at them: a key that none of them has looked at is unknown, and refused here.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { test } from "node:test";

const require = createRequire(new URL("../../web/package.json", import.meta.url));
const { parseAllDocuments } = require("yaml");
const MODELS = dirname(require.resolve("kubernetes-models"));
const FOLDER = new URL("../../share/kubernetes/", import.meta.url);
const SCHEMAS = {
  "v1 Namespace": "IoK8sApiCoreV1Namespace",
  "v1 PersistentVolumeClaim": "IoK8sApiCoreV1PersistentVolumeClaim",
  "apps/v1 DaemonSet": "IoK8sApiAppsV1DaemonSet",
  "batch/v1 Job": "IoK8sApiBatchV1Job",
  container: "IoK8sApiCoreV1EphemeralContainer",
};

// Passes `value` on and calls `miss(path)` for what nobody has looked at once `report` is called.
function watched(value, path, reports) {
  if (value === null || typeof value !== "object") return value;
  const seen = new Set();
  const inner = new Map();
  if (!Array.isArray(value)) {
    reports.push(() =>
      Object.keys(value)
        .filter((key) => !seen.has(key))
        .map((key) => `${path}/${key}`),
    );
  }
  return new Proxy(value, {
    get(target, key) {
      seen.add(key);
      if (!Object.hasOwn(target, key)) return target[key];
      if (!inner.has(key)) inner.set(key, watched(target[key], `${path}/${String(key)}`, reports));
      return inner.get(key);
    },
    ownKeys(target) {
      for (const key of Reflect.ownKeys(target)) seen.add(key); // a map: any key will do
      return Reflect.ownKeys(target);
    },
  });
}

function faultsOf(document) {
  const kind = document.kind ? `${document.apiVersion} ${document.kind}` : "container";
  assert.ok(SCHEMAS[kind], kind);
  const { validate } = require(join(MODELS, "_schemas", `${SCHEMAS[kind]}.js`));
  const whole = kind === "container" ? { name: "debugger", ...document } : document;
  const reports = [];
  if (!validate(watched(whole, "", reports))) return validate.errors.map((error) => `${error.instancePath} ${error.keyword}`);
  return reports.flatMap((report) => report()).map((path) => `${path} unknown`);
}

function documentsOf(file) {
  return parseAllDocuments(readFileSync(new URL(file, FOLDER), "utf8"), { strict: true, uniqueKeys: true }).map((document) => {
    assert.deepEqual(document.errors, []);
    return document.toJS();
  });
}

const FILES = readdirSync(FOLDER).filter((file) => file.endsWith(".yaml"));

// [object, key] of each key in a document, but those of maps that may have any.
function* keysOf(value, path = []) {
  if (value === null || typeof value !== "object") return;
  for (const key of Object.keys(value)) {
    if (!Array.isArray(value)) yield [value, key, [...path, key]];
    yield* keysOf(value[key], [...path, key]);
  }
}
const MAPS = ["labels", "annotations", "matchLabels", "requests", "limits"];

test("manifests are valid, and have no unknown key", () => {
  assert.deepEqual(FILES, ["daemonset.yaml", "debug.yaml", "sidecar.yaml"]);
  for (const document of FILES.flatMap(documentsOf)) assert.deepEqual(faultsOf(document), []);
});

test("a mistyped key is refused, whichever it is", () => {
  for (const file of FILES) {
    const documents = documentsOf(file);
    documents.forEach((document, number) => {
      const paths = [...keysOf(document)].map(([, , path]) => path).filter((path) => path.length > 1 && !MAPS.includes(path.at(-2)));
      for (const path of paths) {
        const copy = structuredClone(documents[number]);
        const holder = path.slice(0, -1).reduce((object, key) => object[key], copy);
        holder[`${path.at(-1)}x`] = holder[path.at(-1)];
        delete holder[path.at(-1)];
        assert.notDeepEqual(faultsOf(copy), [], `${file}: ${path.join("/")}x`);
      }
      assert.ok(paths.length > 0 || document.kind === "Namespace", file);
    });
  }
});

test("a value of another type is refused", () => {
  const [, daemonset] = documentsOf("daemonset.yaml");
  daemonset.spec.template.spec.hostPID = "yes";
  assert.notDeepEqual(faultsOf(daemonset), []);
});

test("all have the same four capabilities, and no more rights than they need", () => {
  for (const file of FILES) {
    const contexts = documentsOf(file).flatMap((document) =>
      [...keysOf(document)].filter(([, key]) => key === "securityContext").map(([object, key]) => object[key]),
    );
    assert.equal(contexts.length, 1, file);
    const { capabilities, allowPrivilegeEscalation, readOnlyRootFilesystem, privileged } = contexts[0];
    assert.deepEqual(capabilities, { drop: ["ALL"], add: ["BPF", "PERFMON", "SYS_PTRACE", "DAC_READ_SEARCH"] });
    assert.equal(allowPrivilegeEscalation, false);
    assert.equal(privileged, undefined);
    if (file !== "debug.yaml") assert.equal(readOnlyRootFilesystem, true);
  }
});
