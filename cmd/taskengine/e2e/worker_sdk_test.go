//go:build !race

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// nodeWorker is a program of the SDK for Node.js, with the path of the SDK.
const nodeWorker = `
import { appendFileSync, existsSync } from "node:fs";
import { Retry, serve } from %q;

const late = async (task) => {
  note(task);
  while (task.timeLeft > 0) await new Promise((resolve) => setTimeout(resolve, 10));
  throw new Error("out of time");
};
const parent = (task) => {
  note(task);
  task.spawn({ type: "shout", payload: "child", key: task.text() });
  if (task.attempt === 1) throw new Retry("the first attempt fails");
  return "spawned";
};
const note = (task) => appendFileSync(process.env.JOURNAL, task.type + " " + task.id + "\n");
const held = async (task) => {
  note(task);
  while (!existsSync(task.text())) await new Promise((resolve) => setTimeout(resolve, 10));
  addChild(task);
  return "held";
};
const addChild = (task) => task.spawn({ type: "child", headers: { of: task.id } });
const plain = (task) => {
  note(task);
  addChild(task);
};
const count = async (task) => {
  const document = await task.readDocument("count/a");
  task.writeDocument(document, Number(document.text()) + 1);
};
await serve({ count, shout: (task) => task.text().toUpperCase(), least: plain, later: plain, most: plain, held, late, parent });
`

// startNodeJSWorker runs a worker that is a program of Node.js.
func startNodeJSWorker(t testing.TB, address string, env ...string) *worker {
	t.Helper()
	sdk, err := filepath.Abs("../../../plugins/sdk/node/dist/index.js")
	if err != nil {
		t.Fatal(err)
	}
	notWithout(t, sdk)
	return startScript(t, address, env, "node", write(t, "worker.mjs", fmt.Sprintf(nodeWorker, sdk)))
}

// pythonWorker is a program of the SDK for Python. Some of its handlers are coroutines.
const pythonWorker = `
import os
import select
import time

from taskengine import Retry, handler, run


def note(task):
    with open(os.environ["JOURNAL"], "a") as f:
        f.write("%s %s\n" % (task.type, task.id))


def add_child(task):
    task.spawn("child", headers={"of": task.id})


@handler("shout")
def shout(task):
    return task.text().upper()


@handler("least")
@handler("later")
def plain(task):
    note(task)
    add_child(task)


@handler("count")
async def count(task):
    document = await task.read_document("count/a")
    task.write_document(document, int(document.text() or 0) + 1)


@handler("held")
def held(task):
    note(task)
    while not os.path.exists(task.text()):
        time.sleep(0.01)
    add_child(task)
    return "held"


@handler("most")
async def most(task):
    note(task)
    add_child(task)


@handler("parent")
def parent(task):
    note(task)
    task.spawn("shout", "child", key=task.text())
    if task.attempt == 1:
        raise Retry("the first attempt fails")
    return "spawned"


@handler("late")
def late(task):
    note(task)
    while True:
        task.check()
        select.select([], [], [], 0.01)  # under a faked clock time.sleep fails


run()
`

// startPythonWorker runs a worker that is a program of Python, with the gRPC of the system.
func startPythonWorker(t testing.TB, address string, env ...string) *worker {
	t.Helper()
	sdk, err := filepath.Abs("../../../plugins/sdk/python")
	if err != nil {
		t.Fatal(err)
	}
	env = append(env[:len(env):len(env)], "PYTHONPATH="+sdk, "PYTHONDONTWRITEBYTECODE=1")
	return startScript(t, address, env, systemPython(), write(t, "worker.py", pythonWorker))
}

// startJavaWorker runs a worker that is a program of Java.
func startJavaWorker(t testing.TB, address string, env ...string) *worker {
	t.Helper()
	const file = "../../../plugins/sdk/java/target/worker.args"
	notWithout(t, file)
	return startScript(t, address, env, "java", "@"+file)
}

// startScript runs a worker that is a program of another language.
func startScript(t testing.TB, address string, env []string, command ...string) *worker {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(append(os.Environ(), env...), "TASKENGINE_ADDRESS="+address)
	return runWorker(t, cmd)
}

func TestAPythonWorkerRunsTasksOfTheNodeToWhichItConnects(t *testing.T) {
	t.Parallel()
	testConnects(t, startPythonWorker)
}

func TestAPythonWorkerIsListedAndDrained(t *testing.T) {
	t.Parallel()
	testDrained(t, startPythonWorker)
}

func TestAPythonWorkerOutlivesItsNode(t *testing.T) {
	t.Parallel()
	testStays(t, startPythonWorker)
}

func TestAPythonWorkerNeedsATokenAndTheCertificatesOfANodeThatWantsThem(t *testing.T) {
	t.Parallel()
	testAccess(t, startPythonWorker)
}

func TestNoTaskIsLostWhateverHappensToPythonWorkersAndTheirNode(t *testing.T) {
	t.Parallel()
	testDisturbed(t, startPythonWorker)
}

func TestTheAnswersOfAPythonWorkerOutliveTheNode(t *testing.T) {
	t.Parallel()
	testAnswersOutlive(t, startPythonWorker)
}

func TestTheAnswersOfAJavaWorkerOutliveTheNode(t *testing.T) {
	t.Parallel()
	testAnswersOutlive(t, startJavaWorker)
}

func TestTheAnswersOfANodeJSWorkerOutliveTheNode(t *testing.T) {
	t.Parallel()
	testAnswersOutlive(t, startNodeJSWorker)
}

func TestAJavaWorkerRunsTasksOfTheNodeToWhichItConnects(t *testing.T) {
	t.Parallel()
	testConnects(t, startJavaWorker)
}

func TestAJavaWorkerIsListedAndDrained(t *testing.T) {
	t.Parallel()
	testDrained(t, startJavaWorker)
}

func TestAJavaWorkerOutlivesItsNode(t *testing.T) {
	t.Parallel()
	testStays(t, startJavaWorker)
}

func TestAJavaWorkerNeedsATokenAndTheCertificatesOfANodeThatWantsThem(t *testing.T) {
	t.Parallel()
	testAccess(t, startJavaWorker)
}

func TestNoTaskIsLostWhateverHappensToJavaWorkersAndTheirNode(t *testing.T) {
	t.Parallel()
	testDisturbed(t, startJavaWorker)
}

func TestANodeJSWorkerRunsTasksOfTheNodeToWhichItConnects(t *testing.T) {
	t.Parallel()
	testConnects(t, startNodeJSWorker)
}

func TestANodeJSWorkerIsListedAndDrained(t *testing.T) {
	t.Parallel()
	testDrained(t, startNodeJSWorker)
}

func TestANodeJSWorkerOutlivesItsNode(t *testing.T) {
	t.Parallel()
	testStays(t, startNodeJSWorker)
}

func TestANodeJSWorkerNeedsATokenAndTheCertificatesOfANodeThatWantsThem(t *testing.T) {
	t.Parallel()
	testAccess(t, startNodeJSWorker)
}

func TestNoTaskIsLostWhateverHappensToNodeJSWorkersAndTheirNode(t *testing.T) {
	t.Parallel()
	testDisturbed(t, startNodeJSWorker)
}
