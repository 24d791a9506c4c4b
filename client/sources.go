package client

import (
	"context"
	"fmt"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// Sources returns the sources of tasks in the configuration of the node, by name, without their partitions.
func (c *Client) Sources(ctx context.Context) ([]*Source, error) {
	res, err := call[taskenginev1.ListSourcesResponse](ctx, c, taskenginev1connect.TaskServiceListSourcesProcedure, &taskenginev1.ListSourcesRequest{}, true)
	if err != nil {
		return nil, err
	}
	var d decoder
	sources := all(res.GetSources(), d.source)
	if d.err != nil {
		return nil, d.err
	}
	return sources, nil
}

// Source returns a source with its partitions. The error wraps [ErrNotFound] if there is none with the name.
func (c *Client) Source(ctx context.Context, name string) (*Source, error) {
	res, err := call[taskenginev1.GetSourceResponse](ctx, c, taskenginev1connect.TaskServiceGetSourceProcedure, &taskenginev1.GetSourceRequest{Name: name}, true)
	if err != nil {
		return nil, err
	}
	return decodeSource(res.GetSource())
}

// PauseSource stops a source from reading, on all nodes, until ResumeSource. The order is durable when it returns, and carried
// out when Orders of [Client.Source] is 0. The reason is shown to users, and has at most 1000 bytes.
func (c *Client) PauseSource(ctx context.Context, name, reason string) (*Source, error) {
	req := &taskenginev1.PauseSourceRequest{Name: name, Reason: reason}
	res, err := call[taskenginev1.PauseSourceResponse](ctx, c, taskenginev1connect.TaskServicePauseSourceProcedure, req, true)
	if err != nil {
		return nil, err
	}
	return decodeSource(res.GetSource())
}

// ResumeSource ends a pause. As with PauseSource, the order is carried out later.
func (c *Client) ResumeSource(ctx context.Context, name string) (*Source, error) {
	req := &taskenginev1.ResumeSourceRequest{Name: name}
	res, err := call[taskenginev1.ResumeSourceResponse](ctx, c, taskenginev1connect.TaskServiceResumeSourceProcedure, req, true)
	if err != nil {
		return nil, err
	}
	return decodeSource(res.GetSource())
}

// SeekSource moves the positions of a source, and returns where each partition goes; none if the brokers do not say that now. With dryRun
// it only returns that. Without, the order is carried out later, as that of PauseSource, and is not repeated: records that are
// read again become tasks once more.
func (c *Client) SeekSource(ctx context.Context, name string, to SourceSeek, dryRun bool) ([]SourceMove, error) {
	if to.targets() > 1 {
		return nil, fmt.Errorf("taskengine: %w: give one of Begin, End, Time and Offset", ErrInvalid)
	}
	res, err := call[taskenginev1.SeekSourceResponse](ctx, c, taskenginev1connect.TaskServiceSeekSourceProcedure, seekMessage(name, &to, dryRun), dryRun)
	if err != nil {
		return nil, err
	}
	return all(res.GetMoves(), moveOf), nil
}

// decodeSource returns no source with an error.
func decodeSource(m *taskenginev1.Source) (*Source, error) {
	var d decoder
	s := d.source(m)
	if d.err != nil {
		return nil, d.err
	}
	return s, nil
}
