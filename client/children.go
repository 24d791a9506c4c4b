package client

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// MaxChildren is how many children one request of [Client.SubmitWithChildren] may have.
const MaxChildren = 10000

// maxChildrenBytes is how many bytes of children a request has, give or take one child.
const maxChildrenBytes = 8 << 20

// ChildrenOptions say how a task waits for the children that are added with it. The zero value is a wait for all of them.
type ChildrenOptions struct {
	Name     string    // of the children, by which the handler finds them; empty: child
	Count    uint32    // the task runs when so many have ended; 0: all
	OrFailed bool      // it also runs when one of them has failed or was cancelled
	Until    time.Time // when it runs at the latest; zero: never
}

// SubmitWithChildren adds a task and children of it, and returns when they are durable. The task
// runs when the children have ended, at once if there are none, and has no At and no In. The children have no ID and no
// Key; either all have an ordering key, or none has. If the key or the id of the task is taken, nothing is added. It is repeated as
// [Client.Submit] is.
//
// Up to [MaxChildren], if they are not larger than 8 MiB, are added in one request: all of them or none. More of them, up to 1,048,576,
// are added in several requests. The children that are there run, and the task does not run before the last ones
// are added, except at Until. If SubmitWithChildren returns an error in between, the task has open children: the same call with the same ID or Key
// goes on where it stopped, also with a list that fits into one request, and [Client.CancelTree] gives it up. A list with fewer children than
// the task has is an [ErrNotAllowed].
func (c *Client) SubmitWithChildren(ctx context.Context, r Request, children []Request, how ChildrenOptions) (Receipt, error) {
	parent, err := c.outgoing(ctx, &r)
	if err != nil {
		return Receipt{}, err
	}
	all := make([]*taskenginev1.NewTask, len(children))
	for i := range children {
		o, err := c.outgoing(ctx, &children[i])
		if err != nil {
			return Receipt{}, err
		}
		if o.isOwn {
			o.message.Id = ""
		}
		all[i] = o.message
	}
	req := childrenMessage(&how)
	req.Task, req.Children = parent.message, partOf(all)
	if req.Open = len(req.Children) < len(all); req.Open {
		req.Count, req.OrFailed = 0, false
	}
	res, err := call[taskenginev1.SubmitWithChildrenResponse](ctx, c, taskenginev1connect.TaskServiceSubmitWithChildrenProcedure, req, true)
	if err != nil {
		return Receipt{}, err
	}
	receipt, err := receiptOf(res.GetReceipt())
	parent.claim(&receipt)
	if err != nil || !res.GetOpen() {
		return receipt, err
	}
	return receipt, c.addChildren(ctx, &receipt, len(req.Children), all, &how)
}

// addChildren adds all children from one on to a task that was submitted with the others. If the task was there before, it adds those
// that are missing, if the task takes more.
func (c *Client) addChildren(ctx context.Context, receipt *Receipt, from int, all []*taskenginev1.NewTask, how *ChildrenOptions) error {
	req := &taskenginev1.AddChildrenRequest{Id: receipt.ID.String(), Name: how.Name}
	add := func() (*taskenginev1.AddChildrenResponse, error) {
		return call[taskenginev1.AddChildrenResponse](ctx, c, taskenginev1connect.TaskServiceAddChildrenProcedure, req, true)
	}
	if !receipt.Created {
		there, err := add()
		if err != nil || !there.GetOpen() {
			return err
		}
		from = int(there.GetAdded())
	}
	for isOpen := true; isOpen; {
		from = min(from, len(all))
		req.From, req.Children = uint32(from), partOf(all[from:])
		if from += len(req.Children); from == len(all) {
			req.Close, req.Count, req.OrFailed = true, how.Count, how.OrFailed
		}
		there, err := add()
		if err != nil {
			return err
		}
		isOpen = there.GetOpen()
	}
	return nil
}

// partOf returns the first children of all, as many as a request may have.
func partOf(all []*taskenginev1.NewTask) []*taskenginev1.NewTask {
	size := 0
	for i, t := range all {
		if size += proto.Size(t); i == MaxChildren || size > maxChildrenBytes && i > 0 {
			return all[:i]
		}
	}
	return all
}

// childrenMessage returns a request without tasks.
func childrenMessage(how *ChildrenOptions) *taskenginev1.SubmitWithChildrenRequest {
	return &taskenginev1.SubmitWithChildrenRequest{Name: how.Name, Count: how.Count, OrFailed: how.OrFailed, Until: stamp(how.Until)}
}
