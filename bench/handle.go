package bench

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/taskengine/taskengine/handlers"
	"github.com/taskengine/taskengine/plugins"
	"github.com/taskengine/taskengine/plugins/handler"
	"github.com/taskengine/taskengine/task"
)

// handlerSet has the handlers of a repetition.
type handlerSet struct {
	byType map[string]task.Handler
	hosts  []*plugins.Host
}

// startHandlers starts the handlers of a scenario. The caller closes the set. dir is a folder for
// their files.
func startHandlers(ctx context.Context, rep *repetition, dir string) (*handlerSet, error) {
	c := &handlerSet{byType: make(map[string]task.Handler)}
	for i := range rep.s.Tasks {
		f := &rep.s.Tasks[i]
		inner, err := c.handler(ctx, rep, f, dir)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("start the handler of %s: %w", f.Name, err), c.close(ctx))
		}
		for typ := range f.Types {
			var h task.Handler = &watched{inner: inner, rep: rep, gates: rep.gates[i], typ: int32(typ)}
			if rep.o.tamper.handler != nil {
				h = rep.o.tamper.handler(h)
			}
			c.byType[f.typeName(typ)] = h
		}
	}
	if rep.s.Backlog.Tasks > 0 {
		c.byType[backlogType] = task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) {
			return nil, task.Permanent(errors.New("a task of the backlog was run"))
		})
	}
	return c, nil
}

func (c *handlerSet) handler(ctx context.Context, rep *repetition, f *Flow, dir string) (task.Handler, error) {
	switch f.Handler.Kind {
	case Sleep:
		return task.HandlerFunc(func(ctx context.Context, _ *task.Task) ([]byte, error) {
			return nil, sleep(ctx, f.Handler.Time)
		}), nil
	case Spin:
		rounds := int(f.Handler.Time / roundTime())
		return task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) {
			spin(rounds)
			return nil, nil
		}), nil
	case Exec:
		return handlers.NewExec(handlers.ExecConfig{
			Command: f.Handler.Command, PassEnv: []string{"PATH"}, MaxOutput: 64 << 10, Grace: 10 * time.Second,
		})
	case Go, Python, Plugin:
		return c.host(ctx, rep, f, dir)
	}
	return task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) { return nil, nil }), nil
}

// pythonProgram is the program of the plugin of kind Python.
//
//go:embed handlers/noop.py
var pythonProgram []byte

// Slots of a plugin: the maximum number of tasks that it runs at once.
const (
	goSlots     = 1024
	pythonSlots = 64
)

func (c *handlerSet) host(ctx context.Context, rep *repetition, f *Flow, dir string) (*plugins.Host, error) {
	cfg := plugins.Config{
		Name: f.Name, Command: slices.Clone(rep.o.Plugin), Slots: goSlots, Logger: rep.o.Log,
		Env: append(plugins.DefaultEnv(), rep.o.PluginEnv...),
	}
	if f.Handler.Kind == Python {
		program := filepath.Join(dir, "noop.py")
		if err := os.WriteFile(program, pythonProgram, 0o600); err != nil {
			return nil, err
		}
		cfg.Command, cfg.Slots = []string{rep.o.python(), program}, pythonSlots
		cfg.Env = append(cfg.Env, "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH="+rep.o.PythonPath)
	}
	if f.Handler.Kind == Plugin {
		cfg.Command = f.Handler.Command
	} else {
		if len(cfg.Command) == 0 {
			return nil, errors.New("Options.Plugin names no program that calls bench.ServePlugin")
		}
		cfg.Command = append(cfg.Command, f.Name, strconv.Itoa(f.Types))
	}
	h, err := plugins.Start(ctx, cfg)
	if err != nil {
		return nil, err
	}
	c.hosts = append(c.hosts, h)
	return h, nil
}

// pids returns the processes of the plugins.
func (c *handlerSet) pids() []int {
	var pids []int
	for _, h := range c.hosts {
		pids = append(pids, h.Status().PID)
	}
	return pids
}

func (c *handlerSet) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	var failed []error
	for _, h := range c.hosts {
		failed = append(failed, h.Close(ctx))
	}
	return errors.Join(failed...)
}

// ServePlugin is the plugin that [Options.Plugin] names: its handlers do nothing. args are the
// arguments appended to the command: the name of a flow and the number of its types. ServePlugin
// returns when the host has closed the connection.
func ServePlugin(args []string) error {
	if len(args) != 2 {
		return errors.New("a plugin of the benchmark is started by `taskengine bench run`; want NAME and TYPES")
	}
	types, err := strconv.Atoi(args[1])
	if err != nil || types < 1 || types > maxTypes {
		return fmt.Errorf("%q is no number of types", args[1])
	}
	f := Flow{Name: args[0], Types: types}
	served := make(handler.Handlers)
	for i := range types {
		served[f.typeName(i)] = handler.Func(func(context.Context, *task.Task) ([]byte, error) { return nil, nil })
	}
	handler.Serve(served)
	return nil
}

// watched records the calls of a handler and checks the limits.
type watched struct {
	inner task.Handler
	rep   *repetition
	gates []*gate
	typ   int32
}

// Handle implements [task.Handler].
func (w *watched) Handle(ctx context.Context, t *task.Task) ([]byte, error) {
	rec := w.rep.records.of(t.ID)
	if rec == nil {
		return nil, task.Permanent(fmt.Errorf("task %v is none of this run", t.ID))
	}
	rec.calls.Add(1)
	for _, g := range w.gates {
		g.enter(rec, w.typ)
	}
	result, err := w.inner.Handle(ctx, t)
	for _, g := range w.gates {
		g.leave(rec, w.typ)
	}
	if err != nil {
		if rec.faults.Add(1); errors.Is(err, task.ErrUnavailable) {
			rec.refused.Add(1)
		}
		w.rep.noteFault(t.ID, err)
	}
	rec.returned = w.rep.records.since(time.Now())
	return result, err
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// spin computes rounds steps.
func spin(rounds int) [sha256.Size]byte {
	var sum [sha256.Size]byte
	for range rounds {
		sum = sha256.Sum256(sum[:])
	}
	return sum
}

// roundTime returns the time of one round of spin: the best of some tries, because other load of the
// machine can only make it longer.
func roundTime() time.Duration {
	const rounds = 10_000
	best := time.Hour
	for range 20 {
		began := time.Now()
		if spin(rounds) == [sha256.Size]byte{} { // never true: it prevents the compiler from omitting the work
			return 1
		}
		best = min(best, time.Since(began))
	}
	return max(1, best/rounds)
}

// python returns the Python interpreter.
func (o *Options) python() string {
	if strings.TrimSpace(o.Python) != "" {
		return o.Python
	}
	return "python3"
}
