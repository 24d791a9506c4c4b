package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/node"
	"github.com/taskengine/taskengine/config"
)

func newTestServer(a *app) *cobra.Command {
	var flags configFlags
	var at string
	cmd := &cobra.Command{
		Use:   "testserver",
		Short: "Run a node for the tests of a program, with a clock that they advance",
		Long: `Run a node for the tests of a program. The test kits of the packages for Python, Node.js
and Java start it.

It keeps its tasks in memory, and has the types, limits and schedules of the configuration.
Each type has a handler of its name with "remote": the test is the worker. Handlers, storage,
coordination, sources, alerts and listeners of the configuration are not used.

Its first line on the standard output is JSON with the address of the API and the time. Time
stands still until a line on the standard input lets it pass:

  {"advance": "90m"}

The node does all that becomes due until then, each at its time, and answers with a line when
nothing is left to do: {"now": "2030-01-01T01:30:00Z"}, or {"error": "..."}. Handlers take no
time. {"advance": "0s"} waits until nothing is left to do now. With "while_running": true it
does not wait for handlers. "patience" is how long it waits by the clock of the machine, 10s by
default. {"worker": "mail"} waits until a worker takes tasks of the type mail.

It ends with its standard input.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			begin := time.Now().Truncate(time.Second)
			if at != "" {
				var err error
				if begin, err = time.Parse(time.RFC3339, at); err != nil {
					return exit.Errorf(exit.Usage, "--at is %q: give a time such as 2030-01-01T00:00:00Z", at)
				}
			}
			cfg, err := flags.load(a)
			if err != nil {
				return err
			}
			forTests(cfg)
			return a.serveTests(cmd.Context(), cfg, begin)
		},
	}
	flags.add(cmd, "the configuration file with the types, limits and schedules")
	cmd.Flags().StringVar(&at, "at", "", "the time at the start, such as 2030-01-01T00:00:00Z; without it, that of the machine")
	return cmd
}

// forTests changes a configuration to that of a node in memory for a test, which runs the tasks
// itself.
func forTests(c *config.Config) {
	fresh := config.Default()
	c.Storage, c.Coordination, c.Bus, c.Tracing = config.Storage{Driver: config.Memory}, fresh.Coordination, config.Bus{}, fresh.Tracing
	c.Encoding, c.Alerts, c.Kafka, c.Sources = config.Encoding{}, config.Alerts{}, nil, nil
	c.API, c.Admin = config.Listener{Listen: "127.0.0.1:0"}, config.Listener{}
	c.Node.DrainTimeout = time.Second
	c.Handlers = make(map[string]config.Handler)
	for name, t := range c.Types {
		t.Handler, t.Nodes = name, nil
		c.Types[name] = t
		c.Handlers[name] = config.Handler{Remote: &config.Remote{
			Liveness: time.Hour, Grace: 10 * time.Second, // a debugger may stop the test
			Documents: config.Documents{MayWrite: []string{"*"}},
		}}
	}
}

// serveTests runs a node of tests until its standard input ends.
func (a *app) serveTests(ctx context.Context, cfg *config.Config, begin time.Time) error {
	log := a.newLog(config.Log{Level: max(cfg.Node.Log.Level, slog.LevelWarn), Format: cfg.Node.Log.Format})
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	n := &node.Node{Config: cfg, Log: log, Build: a.build, Name: node.NameOf(cfg), Manual: begin}
	n.Serving = func(r node.Running) {
		go func() {
			defer stop()
			if err := a.serveTest(ctx, r); err != nil {
				log.Error("the test cannot be served any longer", "error", err)
			}
		}()
	}
	return a.supervise(ctx, log, n)
}

// testRequest is a line of a test.
type testRequest struct {
	Worker       string   `json:"worker"`
	Advance      duration `json:"advance"`
	WhileRunning bool     `json:"while_running"`
	Patience     duration `json:"patience"`
}

// testAnswer is the line that answers it.
type testAnswer struct {
	API   string     `json:"api,omitempty"` // in the first line
	Now   *time.Time `json:"now,omitempty"`
	Error string     `json:"error,omitempty"`
}

// serveTest carries out the commands on the standard input, one a line.
func (a *app) serveTest(ctx context.Context, r node.Running) error {
	answers := json.NewEncoder(a.stdout)
	now := r.Engine.Now()
	if err := answers.Encode(testAnswer{API: r.API, Now: &now}); err != nil {
		return err
	}
	lines := bufio.NewReader(a.stdin)
	for {
		line, err := lines.ReadString('\n')
		if strings.TrimSpace(line) != "" {
			if err := answers.Encode(answerTest(ctx, r, line)); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

func answerTest(ctx context.Context, n node.Running, line string) testAnswer {
	r := testRequest{Patience: duration(10 * time.Second)}
	d := json.NewDecoder(strings.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return testAnswer{Error: fmt.Sprintf("the line must be such as {\"advance\": \"90m\"}: %v", err)}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(r.Patience))
	defer cancel()
	err := n.Engine.Advance(ctx, time.Duration(r.Advance), r.WhileRunning)
	if err == nil && r.Worker != "" {
		err = awaitWorker(ctx, n, r.Worker)
	}
	if err != nil {
		return testAnswer{Error: err.Error()}
	}
	now := n.Engine.Now()
	return testAnswer{Now: &now}
}

// awaitWorker returns when a worker of a handler takes tasks.
func awaitWorker(ctx context.Context, n node.Running, handler string) error {
	for n.Free(handler) == 0 {
		select {
		case <-ctx.Done():
			return fmt.Errorf("no worker of the type %s takes tasks: %w", handler, context.Cause(ctx))
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}
