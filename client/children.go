package client

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
	"github.com/taskengine/taskengine/task"
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
	all, err := c.childMessages(ctx, children)
	if err != nil {
		return Receipt{}, err
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

// ChildrenAdded are the children of a task that was submitted with open children.
type ChildrenAdded struct {
	Added uint32 // how many the task has
	Open  bool   // more can be added
}

// SubmitOpen adds a task whose children are added by later calls: [Client.AddChildren] adds more, in any number of calls, and
// [Client.CloseChildren] says that there are no others. The children that are given here are the first ones; there may be none. They run when they
// are added. The task runs when the children are closed and have ended, or at how.Until; it is cancelled by [Client.CancelTree]. The rules of [Client.SubmitWithChildren]
// hold for the task and the children. If the key or the id of the task is taken, nothing is added, and the receipt is that of the task that has it: a caller that
// was lost goes on with that. how has no Count and no OrFailed: they are said when the children are closed.
func (c *Client) SubmitOpen(ctx context.Context, r Request, first []Request, how ChildrenOptions) (Receipt, error) {
	parent, err := c.outgoing(ctx, &r)
	if err != nil {
		return Receipt{}, err
	}
	children, err := c.childMessages(ctx, first)
	if err != nil {
		return Receipt{}, err
	}
	req := childrenMessage(&how)
	req.Task, req.Children, req.Open = parent.message, partOf(children), true
	res, err := call[taskenginev1.SubmitWithChildrenResponse](ctx, c, taskenginev1connect.TaskServiceSubmitWithChildrenProcedure, req, true)
	if err != nil {
		return Receipt{}, err
	}
	receipt, err := receiptOf(res.GetReceipt())
	parent.claim(&receipt)
	if err != nil || len(req.Children) == len(children) || !res.GetOpen() {
		return receipt, err
	}
	_, err = c.AddChildren(ctx, receipt.ID, uint32(len(req.Children)), first[len(req.Children):], how.Name)
	return receipt, err
}

// AddChildren adds children to a task that was added by [Client.SubmitOpen]. from is the number of the first of them, counted from 0, or how many were added before. Children that the
// task has already, by their numbers, are not added again: the call is repeated when a node does not answer, and may be
// made again with the same children, also by another program. Without children it only returns how many there are. The name is that of
// [ChildrenOptions].
//
// Up to [MaxChildren], if they are not larger than 8 MiB, are added all or not at all; more of them in several requests. The error wraps [ErrChildrenClosed] if the children
// were closed or the task was woken, [ErrTaskEnded] if the task has ended, [ErrTooManyChildren] if it would have too many, [ErrNotAllowed] also if children before
// from are missing, and [ErrBacklog] if there is no room for them now.
func (c *Client) AddChildren(ctx context.Context, id task.ID, from uint32, children []Request, name string) (ChildrenAdded, error) {
	return c.addParts(ctx, &taskenginev1.AddChildrenRequest{Id: id.String(), Name: name, From: from}, children, nil)
}

// CloseChildren adds the last children of a task, of which there may be none, and says that there are no others: the task has from and as many as these. It then runs when
// they have ended, or as how says, which has no Until. The call may be repeated as [Client.AddChildren], whose errors it returns, also when the task is done.
func (c *Client) CloseChildren(ctx context.Context, id task.ID, from uint32, last []Request, how ChildrenOptions) (ChildrenAdded, error) {
	if !how.Until.IsZero() {
		return ChildrenAdded{}, newError("", codes.InvalidArgument, "until is said when the task is submitted, not when its children are closed", "")
	}
	return c.addParts(ctx, &taskenginev1.AddChildrenRequest{Id: id.String(), Name: how.Name, From: from}, last, &how)
}

// addParts adds children in as many requests as they need, of which the last closes them if how is not nil.
func (c *Client) addParts(ctx context.Context, req *taskenginev1.AddChildrenRequest, children []Request, how *ChildrenOptions) (ChildrenAdded, error) {
	left, err := c.childMessages(ctx, children)
	if err != nil {
		return ChildrenAdded{}, err
	}
	for {
		req.Children = partOf(left)
		left = left[len(req.Children):]
		if len(left) == 0 && how != nil {
			req.Close, req.Count, req.OrFailed = true, how.Count, how.OrFailed
		}
		res, err := call[taskenginev1.AddChildrenResponse](ctx, c, taskenginev1connect.TaskServiceAddChildrenProcedure, req, true)
		if err != nil {
			return ChildrenAdded{}, err
		}
		if len(left) == 0 {
			return ChildrenAdded{Added: res.GetAdded(), Open: res.GetOpen()}, nil
		}
		req.From += uint32(len(req.Children))
	}
}

// childMessages returns the messages of children, which get their ids from the node.
func (c *Client) childMessages(ctx context.Context, children []Request) ([]*taskenginev1.NewTask, error) {
	all := make([]*taskenginev1.NewTask, len(children))
	for i := range children {
		o, err := c.outgoing(ctx, &children[i])
		if err != nil {
			return nil, err
		}
		if o.isOwn {
			o.message.Id = ""
		}
		all[i] = o.message
	}
	return all, nil
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
