package cli

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/coordination"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/stores"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/upgrade"
	"github.com/taskengine/taskengine/config"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// alivePatience is how long the databases of a store may take to say which nodes are alive.
const alivePatience = 30 * time.Second

func newUpgrade(a *app) *cobra.Command {
	return group("upgrade", "Check an upgrade to this version", newUpgradeCheck(a))
}

func newUpgradeCheck(a *app) *cobra.Command {
	var flags configFlags
	var store string
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Say whether the nodes can be upgraded to this version",
		Long: `Say whether the nodes of a configuration can be upgraded to the version of this program: whether
it accepts the configuration, reads the store, works with the tables and the server of
PostgreSQL, can use etcd or ZooKeeper, and can run beside the nodes that run now. No task, table
or setting is changed, and nodes may run; but a store in files is read by one process: if a node
uses it, check a backup of it, by --store.

The exit code is 0 if the upgrade is possible, also if it takes a step that is named, 1 if it
would fail, and 10 if something could not be looked at.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.find(); err != nil {
				return err
			}
			return untilSignalled(cmd.Context(), func(ctx context.Context) error {
				found, err := a.upgradeFindings(ctx, &flags, store)
				if err != nil {
					return err
				}
				return a.showUpgrade(found)
			})
		},
	}
	flags.add(cmd, configUsage)
	cmd.Flags().StringVar(&store, "store", "", "another store than that of the configuration, such as a backup: pebble:FOLDER, bolt:FOLDER or a URL of PostgreSQL")
	return cmd
}

// upgradeFindings examines a configuration, its store, and the nodes that run.
func (a *app) upgradeFindings(ctx context.Context, flags *configFlags, store string) (found upgrade.Findings, err error) {
	cfg, refused := flags.load(a)
	found = upgrade.Configuration(flags.file, refused)
	log := slog.New(slog.DiscardHandler)
	var p stores.Location
	switch {
	case store != "":
		p, err = a.locate(store, "")
	case refused != nil:
		return append(found, a.nodeFindings(ctx, nil)...), nil
	case cfg.Storage.Driver == config.Memory:
		return append(found, a.nodeFindings(ctx, nil)...), nil
	default:
		p, err = stores.Parse("", "", func(string) (*config.Config, error) { return cfg, nil })
	}
	if err != nil {
		return nil, err
	}
	found = append(found, upgrade.Storage(ctx, p, log)...)
	return append(found, a.nodeFindings(ctx, func() ([]string, error) {
		within, cancel := context.WithTimeout(ctx, alivePatience)
		defer cancel()
		return coordination.Alive(within, p, log)
	})...), nil
}

// nodeFindings examines the nodes of the cluster of --address. If none answers there, alive returns the names of the nodes that
// use the store; nil if the store is not known.
func (a *app) nodeFindings(ctx context.Context, alive func() ([]string, error)) (found upgrade.Findings) {
	unknown := func(what, do string) upgrade.Findings {
		return upgrade.Findings{{Verdict: upgrade.Unknown, Check: "nodes", What: what, Do: do}}
	}
	var nodes []upgrade.Node
	err := a.with(func(c *client) error {
		res, err := call(ctx, c, c.ListNodes, &taskenginev1.ListNodesRequest{})
		for _, n := range res.GetNodes() {
			nodes = append(nodes, upgrade.Node{Name: n.GetName(), Version: n.GetVersion()})
		}
		return err
	})
	const address = "name a node that runs by --address"
	switch {
	case err == nil:
		return upgrade.Nodes(a.build.Version, nodes)
	case exit.Code(err) != exit.Unavailable:
		return unknown(err.Error(), "use a token with the role view for all types")
	case alive == nil:
		return unknown(err.Error(), address)
	}
	names, aliveErr := alive()
	switch {
	case aliveErr != nil:
		return unknown(aliveErr.Error(), address)
	case len(names) > 0:
		return unknown(fmt.Sprintf("%s run, and their versions are not known: %v", strings.Join(names, ", "), err), address)
	}
	return upgrade.Nodes(a.build.Version, nil)
}

// showUpgrade shows findings. It returns an error unless the upgrade is possible.
func (a *app) showUpgrade(found upgrade.Findings) error {
	for _, f := range found {
		if err := a.showUpgradeFinding(f); err != nil {
			return err
		}
	}
	switch found.Worst() {
	case upgrade.No:
		return exit.Errorf(exit.Failure, "the upgrade to %s would fail", a.build.Version)
	case upgrade.Unknown:
		return exit.Errorf(exit.Partial, "whether the upgrade to %s is possible is not known: something could not be looked at", a.build.Version)
	}
	a.note("the upgrade to %s is possible", a.build.Version)
	return nil
}

func (a *app) showUpgradeFinding(f upgrade.Finding) error {
	if a.json() {
		return a.printJSON(f)
	}
	text := fmt.Sprintf("%-7s  %s: %s\n", f.Verdict, f.Check, clean(f.What))
	if f.Do != "" {
		text += "         " + clean(f.Do) + "\n"
	}
	_, err := fmt.Fprint(a.stdout, text)
	return err
}
