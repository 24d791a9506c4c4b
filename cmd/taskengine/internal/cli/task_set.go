package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// valueFlags are the flags of `task set`.
type valueFlags struct {
	priority        uint32
	data            string
	headers, remove []string
	in              duration
	at              instant
}

func newTaskSet(a *app) *cobra.Command {
	var e edits
	var f valueFlags
	var cmd *cobra.Command
	cmd = newEdit(a, "set", "Change the priority, the payload, headers or the time of a task that waits, is ready, or is in error; its history has the old values", &e,
		func(ctx context.Context, c *client, id string) (*taskenginev1.Task, error) {
			values, at, in, err := f.values(cmd)
			if err != nil {
				return nil, err
			}
			res, err := call(ctx, c, c.SetTask, &taskenginev1.SetTaskRequest{Id: id, Version: e.version, Values: values, At: at, In: in, By: operator()})
			return res.GetTask(), err
		}, func(o *taskenginev1.BulkOrder) (err error) {
			o.Values, o.At, o.In, err = f.values(cmd)
			return err
		})
	cmd.Flags().Uint32Var(&f.priority, "priority", 0, "0 (sooner) to 9 (later)")
	cmd.Flags().StringVar(&f.data, "data", "", "the payload: JSON, or @FILE for the bytes of a file")
	cmd.Flags().StringArrayVar(&f.headers, "header", nil, "a header k=v; may be given more than once, and other headers stay")
	cmd.Flags().StringArrayVar(&f.remove, "remove-header", nil, "the name of a header to remove; may be given more than once")
	cmd.Flags().Var(&f.in, "in", "run it so long from now, such as 90s or 2d")
	cmd.Flags().Var(&f.at, "at", "run it at this time, such as 2026-12-24T18:00:00Z")
	return cmd
}

// values returns the values of the flags that were given.
func (f *valueFlags) values(cmd *cobra.Command) (v *taskenginev1.TaskValues, at *timestamppb.Timestamp, in *durationpb.Duration, err error) {
	v = &taskenginev1.TaskValues{RemoveHeaders: f.remove}
	changed := cmd.Flags().Changed
	if changed("priority") {
		v.Priority = &f.priority
	}
	if changed("data") {
		if f.data == "-" {
			return nil, nil, nil, exit.Errorf(exit.Usage, "--data is JSON or @FILE")
		}
		if v.Payload, err = readData(f.data, nil); err != nil {
			return nil, nil, nil, err
		}
	}
	for _, h := range f.headers {
		name, value, ok := strings.Cut(h, "=")
		if !ok || name == "" {
			return nil, nil, nil, exit.Errorf(exit.Usage, "--header %.80q is not k=v", h)
		}
		if v.Headers == nil {
			v.Headers = make(map[string]string)
		}
		v.Headers[name] = value
	}
	switch {
	case changed("in") && changed("at"):
		return nil, nil, nil, exit.Errorf(exit.Usage, "want either --in or --at")
	case changed("in"):
		in = f.in.message()
	case !time.Time(f.at).IsZero():
		at = f.at.message()
	}
	return v, at, in, nil
}

func newTaskDelete(a *app) *cobra.Command {
	var e edits
	return newEdit(a, "delete", "Remove a task that is done, has failed or was cancelled, for good", &e,
		func(ctx context.Context, c *client, id string) (*taskenginev1.Task, error) {
			res, err := call(ctx, c, c.DeleteTask, &taskenginev1.DeleteTaskRequest{Id: id, Version: e.version})
			return res.GetTask(), err
		}, nil)
}
