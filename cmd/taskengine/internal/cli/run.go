package cli

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/node"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/systemd"
	"github.com/taskengine/taskengine/config"
)

func newRun(a *app) *cobra.Command {
	var flags configFlags
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run a node",
		Long: `Run a node until it is asked to stop.

The configuration is the file that -c names, or ./taskengine.yaml. Without both nothing is
started, unless --set names the place of the tasks, as --set storage.path=FOLDER does.

SIGTERM and SIGINT stop it: it takes no more tasks, waits for running tasks for the configured
drain_timeout, and ends. A second signal ends it at once: running tasks are cancelled, and run
again when the node is back. No accepted task is lost.

SIGHUP reloads the configuration file: most settings of types and limits, retention, handlers that run
commands and requests, alerts, redaction, schedules, and the plugins, each of which gets new processes
that replace the old ones without failing a task. Other changes of the file need a restart, and the log
names them. An invalid file changes nothing. taskengine config diff says what takes which.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.asFirstProcess(func() error { return a.runNode(cmd.Context(), &flags) })
		},
	}
	flags.add(cmd, "the configuration file; without it, ./taskengine.yaml")
	return cmd
}

// runNode runs the node of `taskengine run`.
func (a *app) runNode(ctx context.Context, flags *configFlags) error {
	if err := flags.findForNode(); err != nil {
		return err
	}
	cfg, err := flags.load(a)
	if err != nil {
		return err
	}
	log := a.newLog(cfg.Node.Log)
	if flags.file != "" {
		log.Info("configured", "file", flags.file)
	}
	for _, advice := range cfg.Advice() {
		log.Warn("the configuration may contain a mistake", "advice", advice.String())
	}
	return a.supervise(ctx, log, &node.Node{
		Config: cfg, Log: log, Build: a.build, Name: node.NameOf(cfg), Manager: systemd.New(a.getenv, os.Getpid(), log),
		Again: func() (*config.Config, error) { return flags.load(a) }, Reloads: make(chan struct{}, 1),
	})
}

// findForNode is find for a node. Without a configuration a node would make a folder for its tasks
// in the working folder. That is refused unless a --set names the storage.
func (f *configFlags) findForNode() error {
	if err := f.find(); err != nil || f.file != "" {
		return err
	}
	for _, set := range f.sets {
		if path, _, _ := strings.Cut(set, "="); path == "storage" || strings.HasPrefix(path, "storage.") {
			return nil
		}
	}
	return exit.Errorf(exit.Usage, "there is no ./%s here: name a configuration by -c FILE, or say where tasks are kept by --set storage.path=FOLDER; taskengine dev runs a node to try things out", ownConfig)
}

// hurried is how long a node may take to end in order after a second signal to stop.
const hurried = 2 * time.Second

// supervise runs a node and has signals stop it.
func (a *app) supervise(ctx context.Context, log *slog.Logger, n *node.Node) error {
	outliveReaders()
	signals := listenToSignals(ctx, n.Reloads)
	defer signals.close()
	ended := make(chan error, 1)
	go func() { ended <- n.Run(signals.first, signals.second) }()
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
	return exit.With(exit.Signal+signals.number(), nil)
}
