package plugins

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/taskengine/taskengine/task"
)

// woken returns a task of the type "paid" as it is after a wait.
func woken(w task.Wake, payload string) *task.Task {
	t := newTask("paid", payload)
	t.Version++
	t.Notes = task.NewNotes(task.Progress{}, []byte("asked"))
	t.Signals = &task.Signals{Wake: w}
	return t
}

func TestAHandlerWaitsForASignalAndIsWoken(t *testing.T) {
	h := start(t, self(t, "handlers"))
	l := new(listener)
	from := time.Now()
	result, err := h.Handle(context.WithValue(t.Context(), task.ReporterKey{}, l), newTask("paid", ""))
	v := task.VerdictOf(result, err)
	if v.Outcome != task.Completed || string(v.Result) != "asked" || !slices.Equal(v.Await, []string{"paid", "void"}) || string(*v.Rerun.Checkpoint) != "asked" {
		t.Fatalf("the first attempt ended with %+v (%v)", v, err)
	}
	if in := v.Again.Sub(from); in <= 0 || in > time.Hour+time.Since(from) {
		t.Errorf("the wait ends in %v", in)
	}
	l.mu.Lock()
	if !slices.Contains(l.heard, "checkpoint asked") {
		t.Errorf("it was heard: %q", l.heard)
	}
	l.mu.Unlock()
	file := filepath.Join(t.TempDir(), "go on")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	signal := task.Wake{By: task.BySignal, Signal: task.Signal{ID: task.ID{9}, Name: "paid", At: time.Now(), Data: []byte("cash")}}
	for want, w := range map[string]task.Wake{
		fmt.Sprintf("signal %v paid cash asked", task.ID{9}): signal,
		fmt.Sprintf("timeout %v   asked", task.ID{}):         {By: task.ByTimeout},
		fmt.Sprintf("user %v   asked", task.ID{}):            {By: task.ByUser},
	} {
		if got, err := h.Handle(t.Context(), woken(w, file)); err != nil || string(got) != want {
			t.Errorf("the attempt after the wait ended with %q, %v, want %q", got, err, want)
		}
	}
}

// An attempt that was woken dies with its process, and the next one has the signal.
func TestASignalIsThereAgainAfterItsHandlerWasKilled(t *testing.T) {
	c := self(t, "handlers")
	c.Backoff = time.Millisecond
	h := start(t, c)
	file := filepath.Join(t.TempDir(), "go on")
	signal := task.Wake{By: task.BySignal, Signal: task.Signal{ID: task.ID{9}, Name: "paid", At: time.Now(), Data: []byte("cash")}}
	running := handle(t.Context(), h, woken(signal, file))
	eventually(t, "it runs", func() bool { return h.Status().Running == 1 })
	if err := syscall.Kill(h.Status().PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if r := <-running; !errors.Is(r.err, task.ErrCrashed) {
		t.Fatalf("it ended with %q, %v", r.value, r.err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := h.Handle(t.Context(), woken(signal, file))
	if err != nil || !bytes.HasPrefix(got, []byte("signal")) || !bytes.HasSuffix(got, []byte("paid cash asked")) {
		t.Errorf("it ended with %q, %v", got, err)
	}
}

// refusing is a reporter that stores no checkpoint.
type refusing struct{ listener }

func (*refusing) Checkpoint([]byte) error { return errors.New("the attempt is over \xff") }

func TestAHandlerLearnsThatItsCheckpointIsNotStored(t *testing.T) {
	h := start(t, self(t, "handlers"))
	_, err := h.Handle(context.WithValue(t.Context(), task.ReporterKey{}, new(refusing)), newTask("paid", ""))
	if err == nil || !strings.Contains(err.Error(), "has not stored the checkpoint: the attempt is over") {
		t.Errorf("it ended with %v", err)
	}
	if _, err := h.Handle(t.Context(), newTask("paid", "")); task.VerdictOf(nil, err).Await == nil {
		t.Errorf("without a reporter it ended with %v", err)
	}
}
