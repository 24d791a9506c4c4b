package plugins

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taskengine/taskengine/task"
)

func TestThePythonSDKsOwnTests(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), systemPython(t), "-m", "unittest", "discover", "-s", "tests", "-t", ".")
	cmd.Dir = "sdk/python"
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	cmd.WaitDelay = time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestAPythonHandlerSeesTheTask(t *testing.T) {
	h := start(t, python(t))
	given := &task.Task{
		ID: task.ID{0: 1, 15: 0xff}, Version: 1<<64 - 1, Type: "mirror", Priority: 9, Key: "käy", OrderingKey: "order",
		Attempt: 3, Crashes: 2, Headers: map[string]string{"traceparent": "00-1"}, Payload: []byte(`{"amount": 5}`),
	}
	out, err := h.Handle(t.Context(), given)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"id": given.ID.String(), "version": float64(1<<64 - 1), "type": "mirror", "priority": 9.0, "key": "käy",
		"ordering_key": "order", "attempt": 3.0, "crashes": 2.0, "headers": map[string]any{"traceparent": "00-1"},
		"payload": map[string]any{"amount": 5.0}, "deadline": nil,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if st := h.Status(); st.SDK != "python 0.1.0" || st.Version != "v7" || st.Slots != 16 {
		t.Errorf("%+v", st)
	}
}

func TestEachOfManyPythonTasksGetsItsOwnAnswer(t *testing.T) {
	h := start(t, python(t))
	var wg sync.WaitGroup
	for i := range 2000 {
		wg.Go(func() {
			if got, want := must(t, h, "upper", fmt.Sprintf("task %d", i)), fmt.Sprintf("TASK %d", i); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
	wg.Wait()
}

func TestAFailingPythonTaskEndsNoOther(t *testing.T) {
	h := start(t, python(t))
	for kind, class := range map[string]string{"exit": "SystemExit", "bad json": "bad_payload"} {
		if v := task.VerdictOf(h.Handle(t.Context(), newTask("error", kind))); v.Outcome != task.Errored || v.Class != class {
			t.Errorf("%s: %+v", kind, v)
		}
	}
	must(t, h, "noop", "")
	if st := h.Status(); st.Starts != 1 {
		t.Errorf("%+v", st)
	}
}
