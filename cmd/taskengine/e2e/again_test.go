//go:build !race

package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// counter is a handler in lines of JSON. Its task runs again with a payload and a checkpoint of its own until its payload is 3;
// a task of the type "grow" asks for a payload of as many bytes as its payload says.
const counter = `
def again($run; $payload; $checkpoint): {run_id: $run.run_id, again: {at: (now * 1000000 | floor), result: ($run.payload), payload: ($payload | @base64), checkpoint: ($checkpoint | @base64)}};
if .welcome then {hello: {protocol: 1, sdk: (if .welcome.features | index("rerun") then "jq" else "too new" end), types: ["count", "grow"], slots: 1}, credits: 1}
elif .ping then {pong: .ping}
elif .runs then .runs[0] as $run | ($run.payload | @base64d | tonumber) as $n
	| {finishes: [
		if $run.type == "grow" then again($run; "7" * $n; "")
		elif $n < 3 then again($run; "\($n + 1)"; "was \($n) at attempt \($run.attempt)")
		else {run_id: $run.run_id, result: ("\($n), \($run.checkpoint | @base64d)" | @base64)}
		end], credits: 1}
else empty end`

func TestAPluginHasItsTaskRunAgainWithAPayloadAndACheckpoint(t *testing.T) {
	t.Parallel()
	script := write(t, "counter.jq", counter)
	config := write(t, "taskengine.yaml", fmt.Sprintf(`
storage: {path: %s}
handlers: {jq: {plugin: [/bin/sh, -c, "echo '1|1|stdio||json|'; exec jq --unbuffered -c -f '%s'"]}}
types:
  count: {handler: jq}
  grow: {handler: jq, max_payload: 5B}
`, filepath.Join(t.TempDir(), "data"), script))
	n := start(t, withPath(), "run", "-c", config)

	got := n.objects(t, "task", "add", "count", "--data", "1", "--wait")[0]
	id := fmt.Sprint(got["id"])
	row := n.objects(t, "task", "get", id)[0]
	if row["state"] != "done" || row["result_text"] != "3, was 2 at attempt 1" || fmt.Sprint(row["payload"]) != "3" || fmt.Sprint(row["attempt"]) != "1" {
		t.Errorf("the task is %v", row)
	}

	id = fmt.Sprint(n.objects(t, "task", "add", "grow", "--data", "5")[0]["id"]) // and then 77777
	if row := n.until(t, id, "error"); !strings.Contains(fmt.Sprint(row["error"]), "with a payload of 77777 bytes, and max_payload") || fmt.Sprint(row["payload"]) != "77777" {
		t.Errorf("the task that asks for too much is %v", row)
	}
}
