package target

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/taskengine/taskengine/alert"
	"github.com/taskengine/taskengine/internal/supervise"
)

// maxComplaint is how many of the last bytes of the standard error of a command are in an error.
const maxComplaint = 1024

// ExecConfig says which command an [Exec] runs.
type ExecConfig struct {
	Command []string // the program and its arguments; a program without a slash is looked for in PATH
	Dir     string   // working directory
	Env     map[string]string
	PassEnv []string      // names of variables to pass on from this process
	Timeout time.Duration // of one run; then its process group gets SIGTERM
	Grace   time.Duration // between SIGTERM and SIGKILL
	Log     *slog.Logger
}

// Exec runs a command for each notification, with the JSON on its standard input. The variables
// TASKENGINE_ALERT_ID, _RULE, _STATUS and _SUMMARY have parts of it.
type Exec struct{ config ExecConfig }

// NewExec returns a target that runs a command.
func NewExec(c ExecConfig) *Exec { return &Exec{c} }

// Send implements [Target]. An exit code other than 0 is a failure.
func (e *Exec) Send(ctx context.Context, n alert.Notification) error {
	body, err := json.Marshal(n)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, e.config.Timeout, fmt.Errorf("the command did not end within %v", e.config.Timeout))
	defer cancel()
	cmd := exec.Command(e.config.Command[0], e.config.Command[1:]...)
	cmd.Dir, cmd.Env = e.config.Dir, e.env(&n)
	// On Linux the command is killed when the thread that starts it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	run, err := supervise.Start(cmd, supervise.Options{Log: e.config.Log, Input: body})
	if err != nil {
		return fmt.Errorf("start %s: %w", e.config.Command[0], err)
	}
	stopped, complaint, exit := watch(ctx, run, e.config.Grace)
	switch {
	case stopped:
		return fmt.Errorf("%w: it was asked to end (%s)%s", context.Cause(ctx), exit, complaint)
	case exit.State == nil:
		return fmt.Errorf("how the command ended is not known: %w", exit.Err)
	case !exit.State.Success():
		return errors.New(exit.String() + complaint)
	}
	return nil
}

// watch waits for the end of a process. When ctx ends, the process is stopped.
func watch(ctx context.Context, run *supervise.Process, grace time.Duration) (stopped bool, complaint string, exit supervise.Exit) {
	const drain = 2 * time.Second // how long output is read after the end: a process that left the group may keep it open
	tail := supervise.NewTail(maxComplaint)
	var copies, watcher sync.WaitGroup
	copies.Go(func() { io.Copy(io.Discard, run.Stdout) })
	copies.Go(func() { io.Copy(tail, run.Stderr) })
	watcher.Go(func() {
		select {
		case <-run.Gone():
		case <-ctx.Done():
			stopped = true
			run.Stop(0, grace)
		}
	})
	exit = run.Wait()
	watcher.Wait()
	timer := time.AfterFunc(drain, run.Pipes.Close)
	copies.Wait()
	timer.Stop()
	run.Pipes.Close()
	if said, _ := tail.Text(); said != "" {
		complaint = ": " + said
	}
	return stopped, complaint, exit
}

// env returns the environment of a run.
func (e *Exec) env(n *alert.Notification) []string {
	env := []string{}
	for _, name := range e.config.PassEnv {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.config.Env)) {
		env = append(env, name+"="+e.config.Env[name])
	}
	for name, value := range map[string]string{"ID": n.ID, "RULE": n.Rule, "STATUS": string(n.Status), "SUMMARY": n.Summary} {
		env = append(env, "TASKENGINE_ALERT_"+name+"="+strings.ReplaceAll(value, "\x00", ""))
	}
	return env
}
