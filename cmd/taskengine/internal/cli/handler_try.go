package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/internal/terminal"
	"github.com/taskengine/taskengine/internal/units"
	"github.com/taskengine/taskengine/plugins"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/server"
	"github.com/taskengine/taskengine/task"
)

// trial is one task that a handler program is tried with.
type trial struct {
	programFlags
	payloadFile string
	headers     []string
	attempt     uint32
	timeout     duration
	maxResult   sizeFlag
	maxPayload  sizeFlag
	liveness    duration
}

func newHandlerTest(a *app) *cobra.Command {
	t := trial{
		maxResult:  sizeFlag{policy.DefaultMaxResult, 1, policy.LargestResult},
		maxPayload: sizeFlag{policy.DefaultMaxPayload, 0, policy.LargestPayload},
		liveness:   duration(time.Minute),
	}
	cmd := &cobra.Command{
		Use:   "test --type TYPE [flags] -- COMMAND [ARGUMENT...]",
		Short: "Run one task by a handler program",
		Long: `Start a handler program as a node does, run one task by it, and end it. No node is
needed.

The result goes to standard output; progress, the log and the outcome of the task go to
standard error. The exit code is 1 unless the task is done.

  taskengine handler test --type mail --payload '{"to": "me@example.com"}' -- ./mailer`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			given, err := t.task(a, cmd)
			if err != nil {
				return err
			}
			env, err := t.environ()
			if err != nil {
				return err
			}
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			log := textLog(a.stderr, slog.LevelDebug, a.colourful())
			return a.try(ctx, &t, given, plugins.Config{
				Name: "tested", Command: args, Env: env, Slots: 1, MaxResult: t.maxResult.bytes, MaxPayload: t.maxPayload.bytes, Liveness: t.silence(), MayWrite: []string{"*"}, Logger: log, Host: "taskengine " + server.ReadBuild().Version,
			})
		},
	}
	t.add(cmd, "the type of the task", "the payload of the task: any text")
	flags := cmd.Flags()
	flags.StringVar(&t.payloadFile, "payload-file", "", "the file with the payload; - is standard input")
	flags.StringArrayVar(&t.headers, "header", nil, "k=v, a header of the task; may be given more than once")
	flags.Uint32Var(&t.attempt, "attempt", 1, "which attempt it is")
	flags.Var(&t.maxResult, "max-result", "how large the result may be: max_result of the type")
	flags.Var(&t.maxPayload, "max-payload", "the largest payload of the next run of the task: max_payload of the type")
	flags.Var(&t.liveness, "liveness", "how long the program may be silent: liveness of the handler; 0s is for ever")
	flags.Var(&t.timeout, "timeout", "how long the attempt may run; without it, for ever")
	return cmd
}

// task makes the task that the flags describe.
func (t *trial) task(a *app, cmd *cobra.Command) (*task.Task, error) {
	changed := cmd.Flags().Changed
	if t.typ == "" {
		return nil, exit.Errorf(exit.Usage, "name the type of the task by --type")
	}
	if changed("payload") && changed("payload-file") {
		return nil, exit.Errorf(exit.Usage, "--payload and --payload-file exclude one another")
	}
	if t.attempt == 0 {
		return nil, exit.Errorf(exit.Usage, "--attempt is 0: the first is 1")
	}
	payload := []byte(t.payload)
	var err error
	switch t.payloadFile {
	case "":
	case "-":
		payload, err = io.ReadAll(a.stdin)
	default:
		payload, err = os.ReadFile(t.payloadFile)
	}
	if err != nil {
		return nil, fmt.Errorf("--payload-file: %w", err)
	}
	headers := make(map[string]string, len(t.headers))
	for _, h := range t.headers {
		k, v, ok := strings.Cut(h, "=")
		if !ok || k == "" {
			return nil, exit.Errorf(exit.Usage, "--header %.40q is not k=v", h)
		}
		headers[k] = v
	}
	return &task.Task{
		ID: a.ids.Next(time.Now()), Version: 1, State: task.Processing, Type: t.typ, Attempt: t.attempt,
		Headers: headers, Payload: payload,
	}, nil
}

// silence returns how long the program may be silent, as [plugins.Config] has it.
func (t *trial) silence() time.Duration {
	if t.liveness == 0 {
		return -1
	}
	return time.Duration(t.liveness)
}

// sizeFlag is a flag such as 64KiB.
type sizeFlag struct {
	bytes       int
	least, most int // allowed bytes
}

// String implements [pflag.Value].
func (b *sizeFlag) String() string { return units.ShowSize(b.bytes) }

// Type implements [pflag.Value].
func (b *sizeFlag) Type() string { return "size" }

// Set implements [pflag.Value].
func (b *sizeFlag) Set(s string) error {
	n, err := units.ParseSize(s)
	if err == nil && (n < b.least || n > b.most) {
		err = fmt.Errorf("must be %dB to %s", b.least, units.ShowSize(b.most))
	}
	b.bytes = n
	return err
}

// toClose is how long a program may take to end.
const toClose = 10 * time.Second

// try runs the task and shows its verdict.
func (a *app) try(ctx context.Context, t *trial, given *task.Task, c plugins.Config) error {
	host, err := plugins.Start(ctx, c)
	if err != nil {
		return err
	}
	attempt := context.WithValue(ctx, task.ReporterKey{}, &teller{a})
	if t.timeout > 0 {
		var stop context.CancelFunc
		attempt, stop = context.WithTimeout(attempt, time.Duration(t.timeout))
		defer stop()
	}
	begin := time.Now()
	v := task.VerdictOf(host.Handle(attempt, given))
	took := time.Since(begin)
	if n := len(v.Result); n > t.maxResult.bytes {
		v = task.VerdictOf(nil, task.ResultTooLarge(t.typ, n, t.maxResult.bytes))
	}
	if err := v.Rerun.TooLarge(t.typ, t.maxPayload.bytes); err != nil {
		v = task.VerdictOf(nil, err)
	}
	closing, stop := context.WithTimeout(context.WithoutCancel(ctx), toClose)
	defer stop()
	if err := host.Close(closing); err != nil {
		a.note("%v", err)
	}
	return a.showVerdict(v, took)
}

// teller prints the reports of a handler before its attempt ends.
type teller struct{ *app }

var (
	_ task.Reporter       = (*teller)(nil)
	_ task.DocumentReader = (*teller)(nil)
)

func (t *teller) Progress(p task.Progress) {
	of := ""
	if p.Total > 0 {
		of = fmt.Sprintf(" of %d", p.Total)
	}
	t.note("progress: %d%s %s", p.Done, of, clean(p.Message))
}

func (t *teller) Checkpoint(data []byte) error {
	t.note("checkpoint: %d bytes, %.60q", len(data), data)
	return nil
}

// ReadDocument implements [task.DocumentReader]: there is no document.
func (t *teller) ReadDocument(key string) (task.Document, error) {
	t.note("read of the document %.80q, which does not exist here", key)
	return task.Document{Key: key}, nil
}

// Log does nothing: the host's own log has the line, too.
func (*teller) Log(slog.Record) {}

// verdictJSON returns the line of -o json, described in docs/cli.md.
func verdictJSON(name string, v task.Verdict) jsonObject {
	o := jsonObject{{"verdict", name}}
	o.setBytes("result", v.Result)
	if v.Error != "" {
		o.set("error", v.Error)
	}
	if v.Class != "" {
		o.set("class", v.Class)
	}
	if v.InDoubt {
		o.set("in_doubt", true)
	}
	isDone := v.Outcome == task.Completed || v.Ended
	if !isDone && v.Delay >= 0 && (v.Outcome == task.Snoozed || v.Outcome == task.Errored) {
		o.set("delay_ms", v.Delay.Milliseconds())
	}
	if !v.Again.IsZero() {
		o.set("at", v.Again)
	}
	if r := v.Rerun; r != nil && r.Payload != nil {
		o.setBytes("payload", *r.Payload)
	}
	if r := v.Rerun; r != nil && r.Checkpoint != nil {
		o.setBytes("checkpoint", *r.Checkpoint)
	}
	return o
}

// showVerdict shows the verdict on an attempt. It returns an error unless the task is done, or the handler has ended the
// attempt itself.
func (a *app) showVerdict(v task.Verdict, took time.Duration) error {
	name, meaning := verdictOf(v)
	done := v.Outcome == task.Completed || v.Ended
	if v.Ended {
		v.Error, v.InDoubt = "", false
	}
	if a.json() {
		if err := a.printJSON(verdictJSON(name, v)); err != nil {
			return err
		}
	} else if done {
		if err := a.showResult(v.Result); err != nil {
			return err
		}
	}
	if v.Class != "" {
		meaning += fmt.Sprintf(", class %q", v.Class)
	}
	if v.InDoubt {
		meaning += ", not retried if the type's delivery is at_most_once"
	}
	if done {
		a.note("%s: %s, after %s", name, meaning, units.Span(took))
		a.noteRerun(v.Rerun)
		return nil
	}
	if v.Error != "" {
		meaning += ": " + cleanLines(v.Error)
	}
	return exit.Errorf(exit.Failure, "%s: %s", name, meaning)
}

// noteRerun prints the payload and checkpoint of the next run, and the documents that are written.
func (a *app) noteRerun(r *task.Rerun) {
	if r != nil && r.Payload != nil {
		a.note("with the payload: %d bytes, %.60q", len(*r.Payload), *r.Payload)
	}
	if r != nil && r.Checkpoint != nil {
		a.note("with the checkpoint: %d bytes, %.60q", len(*r.Checkpoint), *r.Checkpoint)
	}
	if r == nil {
		return
	}
	for i := range r.Documents {
		if d := &r.Documents[i]; d.Delete {
			a.note("without the document %.80q", d.Key)
		} else {
			a.note("with the document %.80q: %d bytes, %.60q", d.Key, len(d.Data), d.Data)
		}
	}
}

// showResult writes a result, as it is unless a terminal would obey it.
func (a *app) showResult(result []byte) error {
	if a.outTTY && len(result) > 0 {
		_, err := fmt.Fprintln(a.stdout, cleanLines(string(result)))
		return err
	}
	_, err := a.stdout.Write(result)
	return err
}

// cleanLines is clean for text of several lines, such as a stack.
func cleanLines(s string) string { return terminal.Lines(s) }

// verdictOf returns the name of a verdict and the reaction of a node.
func verdictOf(v task.Verdict) (name, meaning string) {
	if v.Ended {
		return "ended", "the handler has ended the attempt itself, which a node would look up in the database"
	}
	switch v.Outcome {
	case task.Completed:
		if v.Again.IsZero() {
			return "done", "the task is done"
		}
		return "again", "the task is done for now, and due again at " + v.Again.Format(time.RFC3339)
	case task.Snoozed:
		return "snooze", "the task will be called again in " + units.Span(v.Delay)
	case task.Crashed:
		return "crashed", "the program's process died"
	case task.HandedBack:
		return "refused", "the task was not begun"
	case task.Interrupted:
		return "interrupted", "the attempt was cut off"
	}
	switch {
	case v.GiveUp:
		return "permanent", "the task failed for good"
	case v.Delay >= 0 && v.AtLeast:
		return "retryable", "the attempt failed, the next one follows in " + units.Span(v.Delay) + ", or as the type's policy says if that is later"
	case v.Delay >= 0:
		return "retryable", "the attempt failed, the next one follows in " + units.Span(v.Delay)
	}
	return "retryable", "the attempt failed, the next one follows as the type's policy says"
}
