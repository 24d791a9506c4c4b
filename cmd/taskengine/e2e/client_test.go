package e2e

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/client"
	"github.com/taskengine/taskengine/task"
)

// A node is killed again and again while a client submits to it. Each accepted task is there once, and no other is.
func TestAClientOfANodeThatIsKilledLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	const submitters, killed = 8, 5
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0") // an address that is free
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	file := write(t, "taskengine.yaml", fmt.Sprintf("storage: {driver: pebble, path: %q}\n", filepath.Join(t.TempDir(), "data")))
	run := func() *running {
		return startAt(t, address, []string{"PATH=" + os.Getenv("PATH")}, "run", "-c", file)
	}
	c, err := client.Open([]string{address}, client.Options{Timeout: limit})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var mu sync.Mutex
	accepted := make(map[task.ID]bool)
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(accepted)
	}
	n := run()
	var all sync.WaitGroup
	over := make(chan struct{})
	for range submitters {
		all.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				r, err := c.Submit(t.Context(), "nobody", nil)
				if err != nil || !r.Created {
					t.Errorf("submit returns %v, %v", r, err)
					return
				}
				mu.Lock()
				accepted[r.ID] = true
				mu.Unlock()
			}
		})
	}
	for range killed {
		for before := count(); count() < before+100 && !t.Failed(); {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond) // any moment is the right one
		if err := n.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-n.ended
		n = run()
	}
	for before := count(); count() < before+100 && !t.Failed(); {
		time.Sleep(time.Millisecond)
	}
	close(over)
	all.Wait()
	there := 0
	for one, err := range c.Tasks(t.Context(), client.TaskFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		there++
		if !accepted[one.ID] {
			t.Errorf("task %s is there and was not accepted", one.ID)
		}
	}
	if there != len(accepted) {
		t.Errorf("%d tasks are there, of %d that were accepted", there, len(accepted))
	}
}
