package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newLimitWatch(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "watch",
		Short: "Show the limits, and then each change of one as it is made",
		Long: `Show the limits as they are in force on the node, one in a line, and then each change, until
the command is interrupted. If the node restarts, the command waits for it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(func(c *client) error {
				w := limitWatch{known: map[string]*taskenginev1.Limit{}}
				s := &streams[taskenginev1.WatchLimitsResponse]{
					node: waiter{client: c},
					open: func(ctx context.Context) (*connect.ServerStreamForClient[taskenginev1.WatchLimitsResponse], error) {
						return c.WatchLimits(ctx, &taskenginev1.WatchLimitsRequest{Timeout: durationpb.New(pollFor)})
					},
					show: func(res *taskenginev1.WatchLimitsResponse) (complete bool, err error) {
						for _, l := range w.changes(res.GetLimits()) {
							if err := a.showLimitChange(l, time.Now()); err != nil {
								return false, err
							}
						}
						return false, nil
					},
				}
				return s.run(cmd.Context())
			})
		},
	}
}

// limitWatch knows the limits that were shown.
type limitWatch struct {
	known map[string]*taskenginev1.Limit // by limitID
}

// limitChange is a limit as it is now, or as it was before it was removed.
type limitChange struct {
	*taskenginev1.Limit
	removed bool
}

// changes returns the limits that differ from the known ones, removed limits last. It updates the
// known ones.
func (w *limitWatch) changes(limits []*taskenginev1.Limit) (changed []limitChange) {
	now := make(map[string]*taskenginev1.Limit, len(limits))
	for _, l := range limits {
		id := limitID(l)
		now[id] = l
		if old, ok := w.known[id]; !ok || !proto.Equal(old, l) {
			changed = append(changed, limitChange{Limit: l})
		}
		delete(w.known, id)
	}
	for _, id := range slices.Sorted(maps.Keys(w.known)) {
		changed = append(changed, limitChange{w.known[id], true})
	}
	w.known = now
	return changed
}

// showLimitChange writes one limit in a line.
func (a *app) showLimitChange(l limitChange, now time.Time) error {
	if a.json() {
		o := messageJSON(l.Limit).without("used", "held")
		if o.set("removed", l.removed); l.removed {
			o = o.without("setting")
		}
		return a.printJSON(o)
	}
	_, err := fmt.Fprintln(a.stdout, clean(limitLine(l, now)))
	return err
}

// limitLine describes a limit in one line.
func limitLine(l limitChange, now time.Time) string {
	line := now.UTC().Format(time.TimeOnly) + "Z " + limitID(l.Limit) + ": "
	if l.removed {
		return line + "nothing is set any more"
	}
	line += "max " + orNone(maxWords(l.GetMax())) + ", rate " + orNone(rateWords(l.GetRate()))
	if l.GetPaused() {
		line += ", paused"
	}
	if s := l.GetSetting(); s != nil {
		return line + "; set: " + settingWords(s, now)
	}
	return line + "; as configured"
}
