package client

import (
	"context"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// AppliedConfig is the outcome of ApplyConfig for one node.
type AppliedConfig struct {
	Node      string // its name
	Changes   []ConfigChange
	Problem   string // why nothing was changed, or which part of Changes was not applied
	Unchanged bool   // nothing was changed because of the problem
}

// ConfigChange is a change of the configuration of a node.
type ConfigChange struct {
	Key     string // with its sections, such as limits.partner.max
	Before  string // as YAML, without secrets; empty: the key was not there
	After   string // likewise
	Restart bool   // it takes a restart, and Before is in force; otherwise it was applied
}

// ApplyConfig has the node read its configuration file again, as SIGHUP does, or all nodes of the cluster their own files. It returns the outcome
// of each, by name, and the nodes that did not answer and may have applied their files.
func (c *Client) ApplyConfig(ctx context.Context, allNodes bool) (nodes []*AppliedConfig, silent []SilentNode, err error) {
	req := &taskenginev1.ApplyConfigRequest{AllNodes: allNodes}
	res, err := call[taskenginev1.ApplyConfigResponse](ctx, c, taskenginev1connect.TaskServiceApplyConfigProcedure, req, false)
	if err != nil {
		return nil, nil, err
	}
	return all(res.GetNodes(), appliedConfigOf), all(res.GetSilent(), silentOf), nil
}

func appliedConfigOf(m *taskenginev1.AppliedConfig) *AppliedConfig {
	return &AppliedConfig{
		Node: m.GetNode(), Problem: m.GetProblem(), Unchanged: m.GetUnchanged(),
		Changes: all(m.GetChanges(), func(m *taskenginev1.ConfigChange) ConfigChange {
			return ConfigChange{Key: m.GetKey(), Before: m.GetBefore(), After: m.GetAfter(), Restart: m.GetRestart()}
		}),
	}
}
