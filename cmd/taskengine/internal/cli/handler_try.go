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
