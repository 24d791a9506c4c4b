package client

import (
	"context"
	"time"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// MaxChildren is how many children one [Client.SubmitWithChildren] may have.
const MaxChildren = 10000

// ChildrenOptions say how a task waits for the children that are added with it. The zero value is a wait for all of them.
type ChildrenOptions struct {
	Name     string    // of the children, by which the handler finds them; empty: child
	Count    uint32    // the task runs when so many have ended; 0: all
	OrFailed bool      // it also runs when one of them has failed or was cancelled
	Until    time.Time // when it runs at the latest; zero: never
}

// SubmitWithChildren adds a task and children of it, up to [MaxChildren], all of them or none, and returns when they are durable. The task
// runs when the children have ended, at once if there are none, and has no At and no In. The children have no ID and no
// Key; either all have an ordering key, or none has. If the key or the id of the task is taken, nothing is added. It is repeated as
// [Client.Submit] is.
func (c *Client) SubmitWithChildren(ctx context.Context, r Request, children []Request, how ChildrenOptions) (Receipt, error) {
	parent, err := c.outgoing(ctx, &r)
	if err != nil {
		return Receipt{}, err
	}
	req := childrenMessage(&how)
	req.Task, req.Children = parent.message, make([]*taskenginev1.NewTask, len(children))
	for i := range children {
		o, err := c.outgoing(ctx, &children[i])
		if err != nil {
			return Receipt{}, err
		}
		if o.isOwn {
			o.message.Id = ""
		}
		req.Children[i] = o.message
	}
	res, err := call[taskenginev1.SubmitWithChildrenResponse](ctx, c, taskenginev1connect.TaskServiceSubmitWithChildrenProcedure, req, true)
	if err != nil {
		return Receipt{}, err
	}
	receipt, err := receiptOf(res.GetReceipt())
	parent.claim(&receipt)
	return receipt, err
}

// childrenMessage returns a request without tasks.
func childrenMessage(how *ChildrenOptions) *taskenginev1.SubmitWithChildrenRequest {
	return &taskenginev1.SubmitWithChildrenRequest{Name: how.Name, Count: how.Count, OrFailed: how.OrFailed, Until: stamp(how.Until)}
}
