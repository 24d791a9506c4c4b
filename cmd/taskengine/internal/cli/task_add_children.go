package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

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
	req := &taskenginev1.SubmitWithChildrenRequest{
		Task: t, Children: children, Name: f.childrenName, Count: f.count, OrFailed: f.orFailed, Until: f.until.message(),
	}
	return untilAnswered(ctx, c, tasks, false, func() ([]*taskenginev1.Receipt, error) {
		res, err := call(ctx, c, c.SubmitWithChildren, req)
		if err != nil {
			return nil, err
		}
		return []*taskenginev1.Receipt{res.GetReceipt()}, nil
	})
}

// readChildren reads a file of children. Unlike a file of tasks it may have no invalid line: all children are added, or none.
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
