package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// submitOne adds a task and, if the flags say so, its children.
func (a *app) submitOne(cmd *cobra.Command, c *client, f *addFlags, t *taskenginev1.NewTask) ([]*taskenginev1.Receipt, error) {
	ctx, tasks := cmd.Context(), []*taskenginev1.NewTask{t}
	if !cmd.Flags().Changed("children") {
		for _, name := range []string{"children-name", "count", "or-failed", "until"} {
			if cmd.Flags().Changed(name) {
				return nil, exit.Errorf(exit.Usage, "--%s goes with --children", name)
			}
		}
		return submit(ctx, c, tasks, false)
	}
	children, err := readChildren(f.children, a.stdin)
	if err != nil {
		return nil, err
	}
	req := &taskenginev1.SubmitWithChildrenRequest{Task: t, Children: partOf(children), Name: f.childrenName, Until: f.until.message()}
	if req.Open = len(req.Children) < len(children); !req.Open {
		req.Count, req.OrFailed = f.count, f.orFailed
	}
	isOpen := false
	receipts, err := untilAnswered(ctx, c, tasks, false, func() ([]*taskenginev1.Receipt, error) {
		res, err := call(ctx, c, c.SubmitWithChildren, req)
		if err != nil {
			return nil, err
		}
		isOpen = res.GetOpen()
		return []*taskenginev1.Receipt{res.GetReceipt()}, nil
	})
	if err != nil || !isOpen {
		return receipts, err
	}
	from, err := a.addChildren(ctx, c, f, receipts[0], children, len(req.Children))
	if err != nil {
		id := receipts[0].GetId()
		return nil, exit.Errorf(exit.Code(err), "%d of %d children of the task %s are added: %v; the same command with --id %s or its --key goes on, and `taskengine task cancel --tree %s` gives it up",
			from, len(children), id, err, id, id)
	}
	return receipts, nil
}

// addChildren adds all children from one on to a task that was submitted with the others, and returns how many it has. If the task was
// there before, it adds those that are missing, if the task takes more.
func (a *app) addChildren(ctx context.Context, c *client, f *addFlags, r *taskenginev1.Receipt, all []*taskenginev1.NewTask, from int) (int, error) {
	req := &taskenginev1.AddChildrenRequest{Id: r.GetId(), Name: f.childrenName}
	add := func() (there *taskenginev1.AddChildrenResponse, err error) {
		_, err = untilAnswered(ctx, c, nil, true, func() ([]*taskenginev1.Receipt, error) {
			there, err = call(ctx, c, c.AddChildren, req)
			return nil, err
		})
		return there, err
	}
	if !r.GetCreated() {
		there, err := add()
		if err != nil || !there.GetOpen() {
			return from, err
		}
		from = min(int(there.GetAdded()), len(all))
	}
	for {
		req.From, req.Children = uint32(from), partOf(all[from:])
		next := from + len(req.Children)
		if next == len(all) {
			req.Close, req.Count, req.OrFailed = true, f.count, f.orFailed
		}
		there, err := add()
		if err != nil {
			return from, err
		}
		if from = next; !there.GetOpen() {
			return from, nil
		}
	}
}

// Bounds of the children in one request.
const (
	childrenInRequest = 10_000
	childrenBytes     = 8 << 20
)

// partOf returns the first children of all, as many as a request may have.
func partOf(all []*taskenginev1.NewTask) []*taskenginev1.NewTask {
	size := 0
	for i, t := range all {
		if size += proto.Size(t); i == childrenInRequest || size > childrenBytes && i > 0 {
			return all[:i]
		}
	}
	return all
}

// readChildren reads a file of children. Unlike a file of tasks it may have no invalid line.
func readChildren(name string, stdin io.Reader) (children []*taskenginev1.NewTask, err error) {
	input := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		input = f
	}
	in := bufio.NewReader(input)
	for number := 1; ; number++ {
		text, err := in.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("read the children: %w", err)
		}
		if text = bytes.TrimSpace(text); len(text) > 0 {
			t, err := parseLine(text, "")
			if err != nil {
				return nil, exit.Errorf(exit.Usage, "line %d of the children: %v; nothing was added", number, err)
			}
			children = append(children, t)
		}
		if err != nil {
			return children, nil
		}
	}
}
