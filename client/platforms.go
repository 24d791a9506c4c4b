package client

import (
	"context"
	"slices"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// PlatformRow says how [Client.ApplyPlatforms] makes a platform.
type PlatformRow struct {
	Name      string
	Values    map[string]string // of its own, as in SetSlices
	Replace   bool              // values of its own that are not in Values are unset
	Removed   bool              // it makes no slices; otherwise it is added if there is none, or if it was removed
	IfVersion *uint64           // the version that it must have, 0 if there must be none; nil: any
}

// PlatformOutcome is the effect of a [PlatformRow].
type PlatformOutcome string

// The outcomes.
const (
	PlatformCreated   PlatformOutcome = "created"
	PlatformUpdated   PlatformOutcome = "updated"
	PlatformRemoved   PlatformOutcome = "removed"
	PlatformUnchanged PlatformOutcome = "unchanged"
)

// AppliedPlatform is the effect of [Client.ApplyPlatforms] on one platform.
type AppliedPlatform struct {
	Name    string
	Outcome PlatformOutcome // empty if its row was not applied
	Version uint64          // of the platform then; 0 if there is none, or its row was not applied
	Code    string          // the code of the error, such as aborted for another version; empty if the row was applied
	Error   string          // why the row was not applied; empty if it was
}

// platformsAtOnce is how many platforms a request has.
const platformsAtOnce = 1000

// ApplyPlatforms adds, changes and removes platforms of a source, 1000 with each request. Platforms without a row stay as they are. A request with a
// row that cannot be changes nothing; otherwise each row is applied by itself. It returns the effect on each, in their order. After an
// error it returns the effects of the requests before. Then the same call applies the rest.
func (c *Client) ApplyPlatforms(ctx context.Context, source string, rows []PlatformRow, o SliceOrder) ([]AppliedPlatform, error) {
	return c.applyPlatforms(ctx, &taskenginev1.ApplyPlatformsRequest{Source: source, By: o.By, Reason: o.Reason}, rows)
}

// PreviewPlatforms returns the effects that ApplyPlatforms would have, and changes nothing.
func (c *Client) PreviewPlatforms(ctx context.Context, source string, rows []PlatformRow) ([]AppliedPlatform, error) {
	return c.applyPlatforms(ctx, &taskenginev1.ApplyPlatformsRequest{Source: source, DryRun: true}, rows)
}

func (c *Client) applyPlatforms(ctx context.Context, req *taskenginev1.ApplyPlatformsRequest, rows []PlatformRow) (done []AppliedPlatform, err error) {
	for some := range slices.Chunk(rows, platformsAtOnce) {
		req.Platforms = nil
		for _, r := range some {
			req.Platforms = append(req.Platforms, &taskenginev1.PlatformRow{Name: r.Name, Values: r.Values, Replace: r.Replace, Removed: r.Removed, IfVersion: r.IfVersion})
		}
		res, err := call[taskenginev1.ApplyPlatformsResponse](ctx, c, taskenginev1connect.TaskServiceApplyPlatformsProcedure, req, true)
		if err != nil {
			return done, err
		}
		done = append(done, all(res.GetPlatforms(), func(m *taskenginev1.AppliedPlatform) AppliedPlatform {
			return AppliedPlatform{Name: m.GetName(), Outcome: PlatformOutcome(m.GetOutcome()), Version: m.GetVersion(), Code: m.GetCode(), Error: m.GetError()}
		})...)
	}
	return done, nil
}
