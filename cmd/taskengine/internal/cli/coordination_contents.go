package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/coordination"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/stores"
	"github.com/taskengine/taskengine/coord"
)

func newCoordinationClean(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "clean CONFIGURATION",
		Short: "Remove the entries of stopped nodes in etcd or ZooKeeper",
		Long: `Remove all entries below coordination.prefix in etcd or ZooKeeper, for the nodes of all stores:
permits, rates, changes of limits, and the id of the cluster. Stop all nodes before: the
command refuses if it finds one alive. Tasks are not touched. Before a node with a store in
PostgreSQL starts again, the record in that store must be reset ("taskengine coordination
reset"), because its cluster is gone.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withCoordination(cmd.Context(), args[0], "", func(ctx context.Context, p stores.Location, log *slog.Logger) error {
				if !p.Coordination.IsExternal() {
					return exit.Errorf(exit.Usage, "%s: coordination.driver is not etcd or zookeeper; the record in a store is removed by `taskengine coordination reset`", args[0])
				}
				gone, err := coordination.Clean(ctx, p, log)
				if errors.Is(err, coord.ErrInUse) {
					return exit.Errorf(exit.Failure, "%w; stop all nodes first. A node that was killed counts as alive until its lease is over", err)
				}
				if err != nil {
					return err
				}
				a.note("removed: %s", keptWords(gone))
				return nil
			})
		},
	}
}

// keptWords counts the contents of a coordinator, in one line.
func keptWords(c coord.Contents) string {
	settings := 0
	for _, scopes := range c.Settings {
		settings += len(scopes)
	}
	cluster := "no id"
	if c.Cluster != "" {
		cluster = "the id " + c.Cluster
	}
	return fmt.Sprintf("%s, permits of %d limits, %d rates, %d settings", cluster, len(c.Limits), len(c.Rates), settings)
}

// keptJSON is one thing that a coordinator keeps. Its kind says which fields it has.
type keptJSON struct {
	Kind    string            `json:"kind"` // "member", "leader", "limit", "rate" or "setting"
	Name    string            `json:"name"` // of the node, role, limit, rate or setting
	Store   string            `json:"store,omitempty"`
	Node    string            `json:"node,omitempty"`
	ID      string            `json:"id,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	State   string            `json:"state,omitempty"`
	Address string            `json:"address,omitempty"`
	Max     *int              `json:"max,omitempty"`
	Held    *int              `json:"held,omitempty"`
	Want    *int              `json:"want,omitempty"`
	Since   *time.Time        `json:"since,omitempty"`
	Until   *time.Time        `json:"until,omitempty"`
	Scope   *string           `json:"scope,omitempty"`
	Value   string            `json:"value,omitempty"`
	Version uint64            `json:"version,omitempty"`
}

// keptOf lists the contents of a coordinator.
func keptOf(c coord.Contents) (all []keptJSON) {
	for _, m := range c.Members {
		state := "alive"
		if m.Draining {
			state = "draining"
		}
		all = append(all, keptJSON{Kind: "member", Name: m.Name, Store: m.Store, ID: m.Incarnation.String(), Labels: m.Labels, State: state, Address: m.Address})
	}
	for _, l := range c.Leaders {
		all = append(all, keptJSON{Kind: "leader", Name: l.Role, Store: l.Store, Node: l.Node})
	}
	for _, l := range c.Limits {
		for _, h := range l.Holders {
			since := h.Since.UTC()
			all = append(all, keptJSON{Kind: "limit", Name: l.Name, Max: &l.Max, Node: holderName(c, h), ID: h.Holder.String(), Held: &h.Held, Want: &h.Want, Since: &since})
		}
	}
	for _, r := range c.Rates {
		until := r.Full.UTC()
		all = append(all, keptJSON{Kind: "rate", Name: r.Name, Until: &until})
	}
	for _, name := range slices.Sorted(maps.Keys(c.Settings)) {
		for _, s := range c.Settings[name] {
			value := string(s.Value)
			if name == coord.SecretSetting || name == coord.SessionsSetting || name == coord.EndedSetting || name == coord.TokensSetting {
				value = "(not shown)"
			}
			all = append(all, keptJSON{Kind: "setting", Name: name, Scope: &s.Scope, Value: value, Version: s.Version})
		}
	}
	return all
}

// holderName returns the name of the node that holds permits, or "" if it is not known.
func holderName(c coord.Contents, h coord.Holder) string {
	for _, m := range c.Members {
		if m.Uses(h.Holder) {
			return m.Name
		}
	}
	return ""
}

// words describes the entry, for a table.
func (k keptJSON) words() string {
	switch k.Kind {
	case "member":
		var labels []string
		for _, name := range slices.Sorted(maps.Keys(k.Labels)) {
			labels = append(labels, name+"="+k.Labels[name])
		}
		return strings.TrimSpace(k.State + " " + strings.Join(labels, " "))
	case "leader":
		return "held by " + cmp.Or(k.Node, "a node that is not known")
	case "limit":
		return fmt.Sprintf("%s has %d of %d and wants %d, since %s", cmp.Or(k.Node, "a node that is not known"), *k.Held, *k.Max, *k.Want, k.Since.Format(time.RFC3339))
	case "rate":
		return "is full again at " + k.Until.Format(time.RFC3339)
	}
	return fmt.Sprintf("%s = %s", *k.Scope, k.Value)
}

// showContents shows the contents of a coordinator.
func (a *app) showContents(p stores.Location, c coord.Contents) error {
	all := keptOf(c)
	if a.json() {
		for _, k := range all {
			if err := a.printJSON(k); err != nil {
				return err
			}
		}
		return nil
	}
	rows := make([][]string, len(all))
	for i, k := range all {
		rows[i] = []string{k.Kind, k.Name, k.Store, k.words()}
	}
	fmt.Fprintf(a.stdout, "\n%s at %s, prefix %s: %s\n", p.Coordination.Driver, strings.Join(p.Coordination.Endpoints, ", "), p.Coordination.Prefix, keptWords(c))
	if len(rows) == 0 {
		return nil
	}
	return a.printTable([]string{"KIND", "NAME", "STORE", "WHAT"}, rows)
}
