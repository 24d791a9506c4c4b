package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newTokenAdd(a *app) *cobra.Command {
	var rights roleFlags
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Make a token for clients that the cluster keeps, and print it",
		Long: `Make a token that the cluster keeps, and print it to the standard output. It is printed this once:
the cluster keeps its hash alone. Every node that wants tokens (api.tokens) accepts it within
about a second. It needs the role admin and a token for all types, or the socket of a node. A
token that expires makes none that is valid for longer.

NAME appears in lists and in the audit log.

` + rolesHelp,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := &taskenginev1.AddTokenRequest{Name: args[0], Roles: rights.roles, Types: rights.types, By: operator()}
			if cmd.Flags().Changed("expires") {
				req.ExpiresIn = rights.expires.message()
			}
			return a.with(func(c *client) error {
				res, err := call(cmd.Context(), c, c.AddToken, req)
				if err != nil {
					return err
				}
				return a.showSecret(res, res.GetSecret())
			})
		},
	}
	rights.add(cmd)
	return cmd
}

func newTokenRotate(a *app) *cobra.Command {
	var grace duration
	cmd := &cobra.Command{
		Use:   "rotate NAME",
		Short: "Give a token that the cluster keeps another secret, and print it",
		Long: `Give a token that the cluster keeps another secret, and print that to the standard output, this
once. The token keeps its name and its rights. The secret from before is refused by every node
within about a second, or at the end of --grace.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(func(c *client) error {
				res, err := call(cmd.Context(), c, c.RotateToken, &taskenginev1.RotateTokenRequest{Name: args[0], Grace: grace.message(), By: operator()})
				if err != nil {
					return err
				}
				return a.showSecret(res, res.GetSecret())
			})
		},
	}
	cmd.Flags().Var(&grace, "grace", "how long the secret from before is accepted, such as 1h")
	return cmd
}

// showSecret writes the secret of a response, or the response as JSON.
func (a *app) showSecret(res proto.Message, secret string) error {
	if a.json() {
		return a.printMessage(res)
	}
	_, err := fmt.Fprintln(a.stdout, secret)
	return err
}
