package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/server"
)

func newRun(a *app) *cobra.Command {
	var flags configFlags
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run a node",
		Long: `Run a node until it is told to stop.

SIGTERM and SIGINT stop it: it takes no more tasks, waits for those that run for the
configured drain_timeout, and ends. A second signal ends it at once: running tasks are
cancelled, and run again when the node is back. Nothing that was accepted is lost.

SIGHUP reloads the plugins: each gets new processes, as the configuration file then says,
which take the place of the old ones without failing a task. Other changes of the file need
a restart, and the log says so.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := flags.load(a)
			if err != nil {
				return err
			}
			log := a.newLog(cfg.Node.Log)
			return a.supervise(cmd.Context(), log, &node{
				config: cfg, log: log, build: server.ReadBuild(), name: nodeName(cfg), notify: a.notifier(log),
				again: func() (*config.Config, error) { return flags.load(a) }, reloads: make(chan struct{}, 1),
			})
		},
	}
	flags.add(cmd, configUsage)
	return cmd
}

// hurried is how long a node that was told twice to stop may take to end in order.
const hurried = 2 * time.Second

// supervise runs a node and has signals stop it.
func (a *app) supervise(ctx context.Context, log *slog.Logger, n *node) error {
	signals := listenToSignals(ctx, n.reloads)
	defer signals.close()
	ended := make(chan error, 1)
	go func() { ended <- n.run(signals.first, signals.second) }()
	select {
	case err := <-ended:
		return err
	case <-signals.second.Done():
	}
	log.Warn("stopping at once: running tasks are cancelled", "because", context.Cause(signals.second))
	select {
	case <-ended:
	case <-time.After(hurried):
		log.Warn("some tasks did not end when they were cancelled; they are recovered when the node is back")
	}
	return &exitError{code: exitSignal + signals.number()}
}
