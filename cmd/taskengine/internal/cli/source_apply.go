package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// platformsChange is a change of many platforms of a source.
type platformsChange struct {
	source, reason string
	isDry          bool
}

func newSourceApply(a *app) *cobra.Command {
	var file, prefix string
	var prune bool
	var how platformsChange
	cmd := &cobra.Command{
		Use:   "apply SOURCE --file FILE",
		Short: "Add, change and remove platforms of a source of time slices by a list",
		Long: `Make the platforms of a source of time slices those of a file, on all nodes and over restarts. A line of
the file is the name of a platform, which is added if there is none and otherwise stays as it is, or an object:

  {"name": "shop-a", "values": {"interval": "5m", "retries": 9}}
  {"name": "shop-b", "removed": true}

values are all that the platform has of its own: others are unset. With "version" the line counts only if the
platform has this version. source export prints such lines. Platforms that the file does not name stay
as they are; with --prune they are removed, but for those of the configuration: with --prefix only those with
names that begin with it. If a line cannot be, nothing is changed.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			source, err := parseSource(args[0])
			if err != nil {
				return err
			}
			if prefix != "" && !prune {
				return exit.Errorf(exit.Usage, "--prefix is for --prune")
			}
			rows, err := readPlatforms(file, a.stdin)
			if err != nil {
				return err
			}
			if prune && len(rows) == 0 {
				return exit.Errorf(exit.Usage, "%s has no platforms, so --prune would remove all; source remove --prefix removes many", clean(file))
			}
			how.source = source
			return a.with(func(c *client) error {
				if prune {
					gone, err := a.unlisted(cmd.Context(), c, source, prefix, rows)
					if err != nil {
						return err
					}
					rows = append(rows, gone...)
				}
				return a.changePlatforms(cmd.Context(), c, &how, rows)
			})
		},
	}
	cmd.Flags().StringVar(&file, "file", "", "the file of platforms; - is the standard input")
	cmd.Flags().BoolVar(&prune, "prune", false, "remove the platforms that neither the file nor the configuration names")
	cmd.Flags().StringVar(&prefix, "prefix", "", "with --prune: only those with names that begin with it")
	cmd.Flags().BoolVar(&how.isDry, "dry-run", false, "only say what it would change")
	cmd.Flags().StringVar(&how.reason, "reason", "", "why; it is kept in the history")
	_ = cmd.MarkFlagRequired("file")
	return cmd
}

// unlisted returns rows that remove the platforms of a source with a prefix that neither rows nor the configuration names.
func (a *app) unlisted(ctx context.Context, c *client, source, prefix string, rows []*taskenginev1.PlatformRow) (gone []*taskenginev1.PlatformRow, err error) {
	named := make(map[string]bool, len(rows))
	for _, r := range rows {
		named[r.GetName()] = true
	}
	all, _, err := (&platformFlags{prefix: prefix, all: true}).platforms(ctx, c, source)
	if err != nil {
		return nil, err
	}
	stay := 0
	for _, p := range all {
		switch {
		case named[p.GetName()] || p.GetRemoved():
		case p.GetConfigured():
			stay++
		default:
			gone = append(gone, &taskenginev1.PlatformRow{Name: p.GetName(), Removed: true, IfVersion: new(p.GetVersion())})
		}
	}
	if stay > 0 {
		a.note("%d platforms are in the configuration and not in the file: they stay", stay)
	}
	return gone, nil
}

// rowsWith returns the platforms of a source with a prefix that are not removed, each as a row that is changed by edit and holds if the platform has
// not changed meanwhile.
func rowsWith(ctx context.Context, c *client, source, prefix string, edit func(*taskenginev1.PlatformRow)) (rows []*taskenginev1.PlatformRow, err error) {
	all, _, err := (&platformFlags{prefix: prefix, all: true}).platforms(ctx, c, source)
	for _, p := range all {
		if !p.GetRemoved() {
			row := &taskenginev1.PlatformRow{Name: p.GetName(), IfVersion: new(p.GetVersion())}
			edit(row)
			rows = append(rows, row)
		}
	}
	return rows, err
}

// changePlatforms has a node apply rows, and shows the outcomes. If a request fails, those before it stay applied.
func (a *app) changePlatforms(ctx context.Context, c *client, how *platformsChange, rows []*taskenginev1.PlatformRow) error {
	var done []*taskenginev1.AppliedPlatform
	for some := range slices.Chunk(rows, server.MaxList) {
		res, err := call(ctx, c, c.ApplyPlatforms, &taskenginev1.ApplyPlatformsRequest{
			Source: how.source, Platforms: some, DryRun: how.isDry, By: operator(), Reason: how.reason,
		})
		if err != nil {
			if len(done) > 0 && !how.isDry {
				a.note("%d lines were applied before the error; the same command applies the rest", len(done))
			}
			return err
		}
		done = append(done, res.GetPlatforms()...)
	}
	counts := make(map[string]int)
	for _, one := range done {
		counts[one.GetOutcome()]++
	}
	if err := a.showApplied(how.isDry, counts, done); err != nil {
		return err
	}
	if n := counts[""]; n > 0 {
		return exit.Errorf(exit.Conflict, "%d of %d platforms were not changed", n, len(done))
	}
	return nil
}

// showApplied writes the outcomes of platforms. A table leaves out unchanged platforms.
func (a *app) showApplied(isDry bool, counts map[string]int, done []*taskenginev1.AppliedPlatform) error {
	var rows [][]string
	for _, one := range done {
		if a.json() {
			if err := a.printMessage(one); err != nil {
				return err
			}
		} else if one.GetOutcome() != "unchanged" {
			rows = append(rows, []string{one.GetName(), cmp.Or(one.GetOutcome(), "refused"), fmt.Sprint(one.GetVersion()), one.GetError()})
		}
	}
	if len(rows) > 0 {
		if err := a.printTable([]string{"PLATFORM", "OUTCOME", "VERSION", "ERROR"}, rows, "VERSION"); err != nil {
			return err
		}
	}
	would := ""
	if isDry {
		would = "would be "
	}
	var words []string
	for _, outcome := range []string{"created", "updated", "removed", "unchanged"} {
		words = append(words, fmt.Sprintf("%d %s", counts[outcome], outcome))
	}
	a.note("platforms: %s%s", would, strings.Join(words, ", "))
	return nil
}
