package client

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// SliceOrder says who gives an order to a source of time slices or to a platform, and why, for the history.
type SliceOrder struct {
	By     string // at most 200 bytes
	Reason string // at most 1000 bytes
	Prefix string // of an order of PauseSlices, ResumeSlices or RetrySlices for all platforms: only those with names that begin so
}

// SliceSources returns the sources of time slices in the configuration of the node, by name.
func (c *Client) SliceSources(ctx context.Context) ([]*SliceSource, error) {
	res, err := call[taskenginev1.ListSliceSourcesResponse](ctx, c, taskenginev1connect.TaskServiceListSliceSourcesProcedure, &taskenginev1.ListSliceSourcesRequest{}, true)
	if err != nil {
		return nil, err
	}
	var d decoder
	sources := all(res.GetSources(), d.sliceSource)
	if d.err != nil {
		return nil, d.err
	}
	return sources, nil
}

// SliceSource returns a source of time slices with its values and its history. The error wraps [ErrNotFound] if there is none.
func (c *Client) SliceSource(ctx context.Context, name string) (*SliceSource, error) {
	res, err := call[taskenginev1.GetSliceSourceResponse](ctx, c, taskenginev1connect.TaskServiceGetSliceSourceProcedure, &taskenginev1.GetSliceSourceRequest{Name: name}, true)
	if err != nil {
		return nil, err
	}
	var d decoder
	s := d.sliceSource(res.GetSource())
	if d.err != nil {
		return nil, d.err
	}
	return s, nil
}

// Platforms returns the platforms of a source with names that begin with prefix, by name, also removed ones.
func (c *Client) Platforms(ctx context.Context, source, prefix string) (platforms []*Platform, err error) {
	req := &taskenginev1.ListPlatformsRequest{Source: source, Prefix: prefix, Limit: 1000}
	for {
		res, err := call[taskenginev1.ListPlatformsResponse](ctx, c, taskenginev1connect.TaskServiceListPlatformsProcedure, req, true)
		if err != nil {
			return nil, err
		}
		var d decoder
		platforms = append(platforms, all(res.GetPlatforms(), d.platform)...)
		if d.err != nil {
			return nil, d.err
		}
		if req.PageToken = res.GetNextPageToken(); req.GetPageToken() == "" {
			return platforms, nil
		}
	}
}

// Platform returns a platform with its settings, its open slices and its history. The error wraps [ErrNotFound] if there is none.
func (c *Client) Platform(ctx context.Context, source, platform string) (*Platform, error) {
	return platformCall[taskenginev1.GetPlatformResponse](ctx, c, taskenginev1connect.TaskServiceGetPlatformProcedure, &taskenginev1.GetPlatformRequest{Source: source, Platform: platform}, true)
}

// SetSlices sets values of a platform or, if platform is "", of all platforms of the source without one of their own: as texts of a
// configuration, by their names. An empty text unsets a value. It returns the platform; nil for a source. As with all orders, the
// change is durable when it returns, and in force when Orders is 0.
func (c *Client) SetSlices(ctx context.Context, source, platform string, values map[string]string, o SliceOrder) (*Platform, error) {
	req := &taskenginev1.SetSlicesRequest{Source: source, Platform: platform, Values: values, By: o.By, Reason: o.Reason}
	return platformCall[taskenginev1.SetSlicesResponse](ctx, c, taskenginev1connect.TaskServiceSetSlicesProcedure, req, true)
}

// AddPlatform adds a platform to a source, or one again that was removed: it goes on at its cursor. values are its own, as in SetSlices: its
// first slice has them.
func (c *Client) AddPlatform(ctx context.Context, source, platform string, values map[string]string, o SliceOrder) (*Platform, error) {
	req := &taskenginev1.AddPlatformRequest{Source: source, Platform: platform, Values: values, By: o.By, Reason: o.Reason}
	return platformCall[taskenginev1.AddPlatformResponse](ctx, c, taskenginev1connect.TaskServiceAddPlatformProcedure, req, true)
}

// RemovePlatform stops a platform from making slices, until AddPlatform. Its open slices go on.
func (c *Client) RemovePlatform(ctx context.Context, source, platform string, o SliceOrder) (*Platform, error) {
	req := &taskenginev1.RemovePlatformRequest{Source: source, Platform: platform, By: o.By, Reason: o.Reason}
	return platformCall[taskenginev1.RemovePlatformResponse](ctx, c, taskenginev1connect.TaskServiceRemovePlatformProcedure, req, true)
}

// PauseSlices stops a platform or, if platform is "", all platforms of the source from making slices, until ResumeSlices. It returns the
// platform; nil for a source.
func (c *Client) PauseSlices(ctx context.Context, source, platform string, o SliceOrder) (*Platform, error) {
	req := &taskenginev1.PauseSlicesRequest{Source: source, Platform: platform, By: o.By, Reason: o.Reason, Prefix: o.Prefix}
	return platformCall[taskenginev1.PauseSlicesResponse](ctx, c, taskenginev1connect.TaskServicePauseSlicesProcedure, req, true)
}

// ResumeSlices ends pauses, as PauseSlices begins them.
func (c *Client) ResumeSlices(ctx context.Context, source, platform string, o SliceOrder) (*Platform, error) {
	req := &taskenginev1.ResumeSlicesRequest{Source: source, Platform: platform, By: o.By, Reason: o.Reason, Prefix: o.Prefix}
	return platformCall[taskenginev1.ResumeSlicesResponse](ctx, c, taskenginev1connect.TaskServiceResumeSlicesProcedure, req, true)
}

// ResetPlatform moves the cursor of a platform: slices are made from there on, also of times that had slices before. If from is not zero
// and the cursor is not there, nothing changes, and the error wraps [ErrConflict]. The order is not repeated.
func (c *Client) ResetPlatform(ctx context.Context, source, platform string, from, to time.Time, o SliceOrder) (*Platform, error) {
	req := &taskenginev1.ResetPlatformRequest{Source: source, Platform: platform, From: stamp(from), To: stamp(to), By: o.By, Reason: o.Reason}
	return platformCall[taskenginev1.ResetPlatformResponse](ctx, c, taskenginev1connect.TaskServiceResetPlatformProcedure, req, false)
}

// RetrySlices has the failed slices of a platform or, if platform is "", of all platforms of the source run again: those with a part
// between from and until, where a zero time is no bound. It returns the platform; nil for a source. The order is not repeated.
func (c *Client) RetrySlices(ctx context.Context, source, platform string, from, until time.Time, o SliceOrder) (*Platform, error) {
	req := &taskenginev1.RetrySlicesRequest{Source: source, Platform: platform, From: stamp(from), Until: stamp(until), By: o.By, Reason: o.Reason, Prefix: o.Prefix}
	return platformCall[taskenginev1.RetrySlicesResponse](ctx, c, taskenginev1connect.TaskServiceRetrySlicesProcedure, req, false)
}

// platformCall makes a call of which the answer may have a platform.
func platformCall[Res any, PRes interface {
	message[Res]
	GetPlatform() *taskenginev1.Platform
}](ctx context.Context, c *Client, procedure string, req proto.Message, isRepeatable bool) (*Platform, error) {
	res, err := call[Res, PRes](ctx, c, procedure, req, isRepeatable)
	if err != nil {
		return nil, err
	}
	m := PRes(res).GetPlatform()
	if m == nil {
		return nil, nil
	}
	var d decoder
	p := d.platform(m)
	if d.err != nil {
		return nil, d.err
	}
	return p, nil
}
