package steps_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/steps"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/taskenginetest"
)

// plan is a flow of random steps, and what each step returned when a later one began: from then on it may return nothing else.
type plan struct {
	t     *testing.T
	kinds []string
	r     *rand.Rand // of the faults
	seen  []string   // by step; "" if no later one has begun
	ran   int        // steps that were run, again or not
	doing int        // attempts
}

// run is the function of the flow. Attempts end at random places: by errors, panics and the return of errors that hide it.
func (p *plan) run(ctx context.Context, f *steps.Flow) ([]byte, error) {
	p.doing++
	var results []string
	for i, kind := range p.kinds {
		if fault := p.r.IntN(8); p.doing < 60 {
			switch fault {
			case 0:
				return nil, errors.New("no answer")
			case 1:
				panic("a crash")
			}
		}
		p.fix(results)
		result, err := p.step(ctx, f, i, kind)
		if err != nil {
			return nil, err
		}
		if results = append(results, result); p.seen[i] != "" && p.seen[i] != result {
			p.t.Errorf("step %d (%s) returned %q, and %q before", i, kind, result, p.seen[i])
		}
	}
	p.fix(results)
	return fmt.Append(nil, results), nil
}

// fix notes the results of steps behind which another step begins.
func (p *plan) fix(results []string) {
	copy(p.seen, results)
}

func (p *plan) step(ctx context.Context, f *steps.Flow, i int, kind string) (string, error) {
	name := fmt.Sprint(kind, " ", i)
	work := func(context.Context) (string, error) {
		p.ran++
		if fault := p.r.IntN(8); p.doing < 60 && kind == "do" {
			switch fault {
			case 0:
				return "", errors.New("no answer")
			case 1:
				panic("a crash")
			}
		}
		switch result := fmt.Sprint("run ", p.ran); kind {
		case "fail":
			return "", task.Permanent(errors.New(result))
		default:
			return result, nil
		}
	}
	switch kind {
	case "wait":
		w, err := f.WaitFor(ctx, 10*time.Minute, name)
		return fmt.Sprintf("%v %s %v", w.By, w.Signal.Data, w.Signal.At.UnixMicro()), err
	case "sleep":
		return "slept", f.Sleep(ctx, time.Minute)
	case "children": // of one name, so that a later step finds the children of an earlier one
		reqs := make([]task.Request, i%4)
		for n := range reqs {
			reqs[n] = task.Request{Type: "child", At: time.Now().Add(time.Duration(n) * time.Minute)}
		}
		c, err := f.RunChildren(ctx, "child", reqs...)
		if err == nil && (c.Count != uint32(len(reqs)) || c.Done != c.Count || c.Failed+c.Cancelled > 0) {
			p.t.Errorf("step %d has the children %+v, of %d", i, c, len(reqs))
		}
		return fmt.Sprintf("%+v", c), err
	case "fail":
		_, err := steps.Do(ctx, f, name, work)
		if v := task.VerdictOf(nil, err); err == nil || !v.GiveUp {
			return "", err // the flow ends here
		}
		return err.Error(), nil
	default:
		return steps.Do(ctx, f, name, work)
	}
}

// Steps return their earlier results, whatever fails, and each of them runs.
func TestRandomFlows(t *testing.T) {
	for range 15 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			p := &plan{r: rand.New(rand.NewPCG(seed, 2))}
			for range 1 + r.IntN(12) {
				p.kinds = append(p.kinds, []string{"do", "do", "do", "fail", "wait", "sleep", "children"}[r.IntN(7)])
			}
			p.kinds = append(p.kinds, "do") // a failure is kept when a step follows
			p.seen = make([]string, len(p.kinds))
			typ := policy.DefaultType()
			typ.Retry.Max = policy.Forever
			c := engine.Config{
				Policies: policy.Set{Slots: 10, Types: map[string]policy.Type{"order": typ, "child": typ}},
				Handlers: map[string]task.Handler{
					"order": steps.Handler(steps.Options{Version: 1}, p.run),
					"child": task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) { return nil, nil }),
				},
			}
			taskenginetest.Run(t, c, func(t *testing.T, e *taskenginetest.Engine) {
				p.t = t
				receipts, err := e.Submit(t.Context(), engine.Request{Type: "order"})
				if err != nil {
					t.Fatal(err)
				}
				id := receipts[0].ID
				for n := 0; ; n++ {
					got, err := e.Get(t.Context(), id)
					if err != nil || n > 10_000 {
						t.Fatalf("after %d events and %d attempts the task is %v (%v)", n, p.doing, got, err)
					}
					if got.State == task.Done {
						break
					}
					p.disturb(e, r, id, n)
				}
				for i, result := range p.seen {
					if result == "" {
						t.Errorf("step %d (%s) returned nothing", i, p.kinds[i])
					}
				}
			})
		})
	}
}

// disturb lets time pass, or sends a signal, or restarts the engine.
func (p *plan) disturb(e *taskenginetest.Engine, r *rand.Rand, id task.ID, n int) {
	p.t.Helper()
	switch r.IntN(4) {
	case 0:
		i := r.IntN(len(p.kinds))
		_, _, err := e.Signal(p.t.Context(), engine.Signal{To: id, Name: fmt.Sprint("wait ", i), Data: fmt.Append(nil, n), Keep: r.IntN(2) == 0})
		if err != nil {
			p.t.Fatal(err)
		}
	case 1:
		e.Restart(time.Duration(r.IntN(1000)) * time.Millisecond)
	default:
		e.Advance(time.Duration(r.IntN(300)) * time.Second)
	}
}
