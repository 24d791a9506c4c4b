package taskenginetest

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
)

// failing is a test with a failure that is looked at. Fatal ends its goroutine.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Helper() {}

func (f *failing) Fatal(args ...any) {
	f.said = fmt.Sprint(args...)
	runtime.Goexit()
}

func (f *failing) Fatalf(format string, args ...any) { f.Fatal(fmt.Sprintf(format, args...)) }

func TestATestFailsWithTheReason(t *testing.T) {
	c := engine.Config{Policies: policy.Set{Types: map[string]policy.Type{"ship": policy.DefaultType()}}}
	Run(t, c, func(t *testing.T, e *Engine) {
		if _, err := e.Submit(t.Context(), engine.Request{Type: "ship", Payload: []byte("no JSON")}); err != nil {
			t.Fatal(err)
		}
		for want, fn := range map[string]func(*Engine){
			"has not ended: context deadline exceeded; it is submitted: ": func(e *Engine) { e.Wait() },
			"there are 0 tasks of type mail, want one":                    func(e *Engine) { e.Only("mail") },
			"of type ship: invalid character":                             func(e *Engine) { Payload[int](e.t, e.Only("ship")) },
		} {
			f, ended := &failing{TB: t}, make(chan struct{})
			go func() {
				defer close(ended)
				fn(&Engine{Engine: e.Engine, t: f, patience: time.Minute})
			}()
			if <-ended; !strings.Contains(f.said, want) {
				t.Errorf("the test fails with %q, want %q", f.said, want)
			}
		}
	})
}
