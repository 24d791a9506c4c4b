package cli

import (
	"errors"

	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newTaskGet(a *app) *cobra.Command {
	req := new(taskenginev1.GetRequest)
	cmd := &cobra.Command{
		Use:   "get ID | --type TYPE --key KEY",
		Short: "Show everything about a task",
		Args: func(_ *cobra.Command, args []string) error {
			byKey := req.GetType() != "" || req.GetKey() != "" || req.GetOrderingKey() != ""
			switch {
			case len(args) > 1 || !byKey && len(args) == 0 || byKey && len(args) == 1:
				return errors.New("want an ID, or --type and --key")
			case byKey && (req.GetType() == "" || req.GetKey() == ""):
				return errors.New("--type and --key go together")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(func(c *client) (err error) {
				if len(args) == 1 {
					if req.Id, err = c.taskID(cmd.Context(), args[0]); err != nil {
						return err
					}
				}
				res, err := call(cmd.Context(), c, c.Get, req)
				switch {
				case err != nil && req.GetId() != "":
					return aboutTask(req.GetId(), err)
				case err != nil:
					return err
				}
				return a.showTask(res.GetTask())
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&req.Type, "type", "", "of the task with this type and --key")
	flags.StringVar(&req.Key, "key", "", "of the task with this key")
	flags.StringVar(&req.OrderingKey, "ordering-key", "", "the ordering key of the task with --key, if it has one")
	return cmd
}
