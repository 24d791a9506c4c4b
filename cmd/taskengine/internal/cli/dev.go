package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/node"
	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/server"
	"github.com/taskengine/taskengine/task"
)

func newDev(a *app) *cobra.Command {
	var flags configFlags
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a node that forgets everything, to try things out",
		Long: `Run a node that keeps its tasks in memory and logs text. Without -c, it does not
read ./taskengine.yaml but handles three types of tasks by itself:

  echo   returns its payload
  sleep  takes {"for": "3s"}, and takes so long
  fail   takes {"times": 2}, and fails so often before it is done`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.asFirstProcess(func() error { return a.runDev(cmd.Context(), &flags) })
		},
	}
	flags.add(cmd, "the configuration file; without it, there are samples")
	return cmd
}

// runDev runs the node of `taskengine dev`.
func (a *app) runDev(ctx context.Context, flags *configFlags) error {
	cfg, err := flags.load(a)
	if err != nil {
		return err
	}
	cfg.Storage = config.Storage{Driver: config.Memory}
	if cfg.Node.Log.Format == config.LogAuto {
		cfg.Node.Log.Format = config.LogText
	}
	log := a.newLog(cfg.Node.Log)
	n := &node.Node{Config: cfg, Log: log, Build: server.ReadBuild(), Name: node.NameOf(cfg)}
	if flags.file == "" {
		cfg.UI = config.DefaultUI()
		addSamples(n)
		log.Info("try: taskengine task add echo --data '{\"hello\": \"world\"}' --wait")
	}
	return a.supervise(ctx, log, n)
}

// addSamples gives the node types to play with, unless a --set has made their names its
// own.
func addSamples(n *node.Node) {
	n.Extra = make(map[string]task.Handler)
	for name, h := range map[string]task.HandlerFunc{"echo": echo, "sleep": sleepFor, "fail": failTimes} {
		if _, taken := n.Config.Types[name]; !taken {
			n.Config.Types[name] = config.Type{Handler: name, Type: policy.DefaultType()}
			n.Extra[name] = h
		}
	}
}

func echo(_ context.Context, t *task.Task) ([]byte, error) { return t.Payload, nil }

func sleepFor(ctx context.Context, t *task.Task) ([]byte, error) {
	var in struct {
		For duration `json:"for"`
	}
	if err := json.Unmarshal(t.Payload, &in); err != nil {
		return nil, task.Permanent(fmt.Errorf("the payload must be such as {\"for\": \"3s\"}: %w", err))
	}
	select {
	case <-time.After(time.Duration(in.For)):
		return nil, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func failTimes(_ context.Context, t *task.Task) ([]byte, error) {
	var in struct {
		Times uint32 `json:"times"`
	}
	if err := json.Unmarshal(t.Payload, &in); err != nil {
		return nil, task.Permanent(fmt.Errorf("the payload must be such as {\"times\": 2}: %w", err))
	}
	if t.Attempt <= in.Times {
		return nil, errors.New("failed, as the payload asks")
	}
	return []byte(fmt.Sprint(t.Attempt)), nil
}
