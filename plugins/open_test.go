package plugins

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/task"
)

// opened opens a host and closes it with the test.
func opened(t *testing.T, c Config) *Host {
	t.Helper()
	h, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return h
}

// greeter returns a script that runs commands and then serves the type x.
const greeter = `%s
echo '1|1|stdio||json|'
while read -r frame; do case $frame in
*welcome*) echo '{"hello":{"protocol":1,"types":["x"],"slots":1},"credits":1}' ;;
*runs*) id=${frame#*run_id\":\"}; echo "{\"finishes\":[{\"run_id\":\"${id%%%%\"*}\"}],\"credits\":1}" ;;
esac done`

func TestAProgramThatDoesNotStartIsTriedUntilItDoes(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	c := script(t, fmt.Sprintf(greeter, "[ -e "+gate+" ] || { echo no gate >&2; exit 3; }"))
	c.MaxBackoff = 100 * time.Millisecond
	for _, least := range []int{1, -1} {
		os.Remove(gate)
		c.MinProcesses = least
		h := opened(t, c)
		err := h.Tried(t.Context())
		if err == nil || !strings.Contains(err.Error(), "no gate") || !strings.Contains(err.Error(), "exit status 3") {
			t.Errorf("the first start ended with %v", err)
		}
		if st := h.Status(); st.Up || !strings.Contains(st.Down, "no gate") || st.Name != "sh" {
			t.Errorf("the status is %+v", st)
		}
		if _, err := h.Handle(t.Context(), newTask("x", "")); !errors.Is(err, task.ErrUnavailable) || !strings.Contains(err.Error(), "no gate") {
			t.Errorf("a task meanwhile ended with %v", err)
		}
		if err := os.WriteFile(gate, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the handler is up", func() bool { return h.Status().Up })
		if st := h.Status(); st.Down != "" || h.Tried(t.Context()) != nil {
			t.Errorf("the status is %+v", st)
		}
		if v := task.VerdictOf(h.Handle(t.Context(), newTask("x", ""))); strings.Contains(v.Error, "gate") {
			t.Errorf("a task ended with %+v", v)
		}
	}
}

func TestAHandlerThatIsDownIsReloaded(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	c := script(t, fmt.Sprintf(greeter, "[ -e "+gate+" ] || { echo no gate >&2; exit 3; }"))
	c.Backoff, c.MaxBackoff = time.Hour, time.Hour
	h := opened(t, c)
	var heard []task.Capacity
	defer h.Use(func(c task.Capacity) { heard = append(heard, c) }).End()
	if err := h.Tried(t.Context()); err == nil {
		t.Fatal("it started")
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := h.Reload(t.Context(), c); err != nil {
		t.Error(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	down, last := false, heard[len(heard)-1]
	for _, c := range heard {
		down = down || strings.Contains(c.Down, "no gate") && strings.Contains(c.Down, "its next start is at 20")
	}
	if !down || last.Slots != 1 || last.Down != "" {
		t.Errorf("its capacity was %+v", heard)
	}
}

func TestAFirstProcessServesTheTypesThatItHasTo(t *testing.T) {
	c := script(t, fmt.Sprintf(greeter, ""))
	c.Types = []string{"x", "y"}
	want := `does not serve the type "y", only x`
	if err := opened(t, c).Tried(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("in the background the first start ended with %v", err)
	}
	if _, err := Start(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the start ended with %v", err)
	}
}

func TestProgramsStartInTurns(t *testing.T) {
	// Each leaves a folder while it starts, and fails if there is one.
	dir := t.TempDir()
	c := script(t, fmt.Sprintf(greeter, fmt.Sprintf("mkdir %[1]s/starting || exit 5; sleep 0.2; rmdir %[1]s/starting", dir)))
	c.Turns = &Turns{free: make(chan struct{}, 1), most: time.Hour}
	var wg sync.WaitGroup
	for range 5 {
		h := opened(t, c)
		wg.Go(func() {
			if err := h.Tried(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestTheTimeToStartCountsFromTheTurn(t *testing.T) {
	for limit := time.Second; ; limit *= 2 {
		c := script(t, fmt.Sprintf(greeter, ""))
		c.Turns, c.StartTimeout = NewTurns(1), limit
		c.Turns.free <- struct{}{}
		h := opened(t, c)
		time.Sleep(c.StartTimeout + 500*time.Millisecond)
		if st := h.Status(); st.Starts != 0 || !strings.Contains(st.Down, "still starting") {
			t.Errorf("before its turn the status is %+v", st)
		}
		<-c.Turns.free
		err := h.Tried(t.Context())
		if err == nil {
			return
		}
		if !strings.Contains(err.Error(), "not ready within") || limit > patience/2 { // else the machine is too slow for that limit
			t.Fatal(err)
		}
	}
}

func TestATurnEndsThoughItsProgramHangs(t *testing.T) {
	turns := NewTurns(1)
	turns.most = time.Millisecond
	hangs := script(t, "sleep 1000")
	hangs.Turns = turns
	opened(t, hangs)
	c := script(t, fmt.Sprintf(greeter, ""))
	c.Turns = turns
	if err := opened(t, c).Tried(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAHostThatNeverStartedCloses(t *testing.T) {
	c := script(t, "sleep 1000")
	h := opened(t, c)
	eventually(t, "it starts", func() bool { h.mu.Lock(); defer h.mu.Unlock(); return h.starting == 1 })
	if err := h.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := h.Tried(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("the wait for its start ended with %v", err)
	}
}
