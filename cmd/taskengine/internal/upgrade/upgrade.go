// Package upgrade says whether the nodes of a configuration can be upgraded to this program: their stores, their databases, their
// coordinator, and the programs that run now. It changes no task, table or setting.
package upgrade

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/coordinator"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/stores"
	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/coord"
)

// Verdict says what a finding means for the upgrade.
type Verdict string

// The verdicts.
const (
	OK      Verdict = "ok"      // nothing to do
	Step    Verdict = "step"    // the upgrade is possible, with a step that the finding names
	Unknown Verdict = "unknown" // it could not be looked at
	No      Verdict = "no"      // the upgrade would fail
)

// Finding is one thing that an upgrade meets.
type Finding struct {
	Verdict Verdict `json:"verdict"`
	Check   string  `json:"check"` // configuration, store, server, tables, coordination or nodes
	What    string  `json:"what"`
	Do      string  `json:"do,omitempty"`
}

// Findings are the results of a check, in its order.
type Findings []Finding

func (f *Findings) add(v Verdict, check, what, do string) {
	*f = append(*f, Finding{v, check, what, do})
}

// Worst returns the verdict of all findings together: No, else Unknown, else Step, else OK.
func (f Findings) Worst() Verdict {
	order := []Verdict{OK, Step, Unknown, No}
	worst := OK
	for _, one := range f {
		if slices.Index(order, one.Verdict) > slices.Index(order, worst) {
			worst = one.Verdict
		}
	}
	return worst
}

// Configuration is the finding for a configuration that this program has read, or refuses by err.
func Configuration(file string, err error) (found Findings) {
	const check = "configuration"
	var refused *config.Errors
	switch {
	case errors.As(err, &refused):
		for _, p := range refused.Problems {
			found.add(No, check, p.String(), "change the file together with the program: the earlier one reads its own file")
		}
	case err != nil:
		found.add(Unknown, check, err.Error(), "name the configuration of the nodes by --config")
	case file == "":
		found.add(OK, check, "there is none; the defaults are looked at", "name the configuration of the nodes by --config")
	default:
		found.add(OK, check, fmt.Sprintf("this version accepts %s", file), "")
	}
	return found
}

// Storage examines the store of a location, and the coordinator of its configuration.
func Storage(ctx context.Context, p stores.Location, log *slog.Logger) (found Findings) {
	if p.Driver.InFiles() {
		found = folder(ctx, p, log)
	} else {
		urls := map[string]string{config.Main: p.URL}
		for name, url := range p.Config.Databases {
			urls[name] = url.Reveal()
		}
		for _, name := range slices.SortedFunc(maps.Keys(urls), mainFirst) {
			label := ""
			if len(urls) > 1 {
				label = "the database " + name + ": "
			}
			found = append(found, database(ctx, urls[name], p.Schema, label)...)
		}
	}
	if !p.Coordination.IsExternal() {
		return found
	}
	return append(found, coordination(ctx, p.Coordination))
}

// coordination examines the coordinator of a configuration.
func coordination(ctx context.Context, c config.Coordination) Finding {
	const check = "coordination"
	oldest := coordinator.Oldest(c.Driver)
	switch version, err := coordinator.Probe(ctx, c); {
	case err == nil && version == "":
		return Finding{OK, check, fmt.Sprintf("this version can use %s, which does not say its version; it needs %s or newer", c.Driver, oldest), ""}
	case err == nil:
		return Finding{OK, check, fmt.Sprintf("it is %s %s, and this version needs %s or newer", c.Driver, version, oldest), ""}
	case errors.Is(err, coord.ErrRefused):
		return Finding{No, check, err.Error(), "nodes of this version do not start before that is mended"}
	default:
		return Finding{Unknown, check, err.Error(), "repeat this when it answers"}
	}
}

// mainFirst orders the names of databases.
func mainFirst(a, b string) int {
	rank := func(name string) int {
		if name == config.Main {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a, b))
}
