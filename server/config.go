package server

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"connectrpc.com/connect"

	"github.com/taskengine/taskengine/server/peer"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// reloadPatience is how long another node may take to read its file again, with the start of new processes of its plugins.
const reloadPatience = time.Minute

// ReloadedBy is who has a node read its configuration file again.
type ReloadedBy struct {
	Who, From string // for the audit log
}

// Reload is the outcome of reading the configuration file of a node again.
type Reload struct {
	Changes   []ConfigChange
	Err       error // why nothing was changed, or which part was not applied
	Unchanged bool  // nothing was changed because of Err
}

// ConfigChange is a key with another value in the file than before.
type ConfigChange struct {
	Key, Before, After string
	Restart            bool // it takes a restart
}

// ApplyConfig has this node, or all nodes, read their configuration files again.
func (a *API) ApplyConfig(ctx context.Context, req *taskenginev1.ApplyConfigRequest) (*taskenginev1.ApplyConfigResponse, error) {
	if a.reload == nil {
		return nil, connect.NewError(connect.CodeFailedPrecondition, errors.New("this node does not read its configuration from a file; start it again"))
	}
	res := new(taskenginev1.ApplyConfigResponse)
	if req.GetAllNodes() {
		others, unknown := a.others(ctx)
		if unknown != nil {
			res.Silent = append(res.Silent, unknownNodes(unknown))
		}
		answers, silent := sorted(peer.AskWithin(a.forCaller(ctx), a.peers, reloadPatience, others, func(ctx context.Context, c taskenginev1connect.TaskServiceClient) (*taskenginev1.ApplyConfigResponse, error) {
			return c.ApplyConfig(ctx, &taskenginev1.ApplyConfigRequest{})
		}))
		for _, one := range answers {
			res.Nodes = append(res.Nodes, one.Res.GetNodes()...)
		}
		res.Silent = append(res.Silent, silent...)
	}
	done, err := a.reload(ctx, ReloadedBy{Who: whoOf(ctx), From: originOf(ctx).address})
	if err != nil {
		return nil, a.answer(err)
	}
	own := &taskenginev1.AppliedConfig{Node: text(a.node), Unchanged: done.Unchanged}
	for _, c := range done.Changes {
		own.Changes = append(own.Changes, &taskenginev1.ConfigChange{Key: text(c.Key), Before: text(c.Before), After: text(c.After), Restart: c.Restart})
	}
	if done.Err != nil {
		own.Problem = text(done.Err.Error())
	}
	res.Nodes = append(res.Nodes, own)
	slices.SortStableFunc(res.Nodes, func(a, b *taskenginev1.AppliedConfig) int { return cmp.Compare(a.GetNode(), b.GetNode()) })
	return res, nil
}
