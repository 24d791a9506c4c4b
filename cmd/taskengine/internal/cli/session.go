package cli

import (
	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newSessionRevoke(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke PERSON",
		Short: "End the sessions of a person at the dashboard",
		Long: `End all sessions that a person has begun at the dashboard by logging in at the identity provider.
PERSON is the name in audit lines, such as oidc:ann@example.com, with or without oidc: before it.
Every node refuses these sessions within about a second.

The person may log in again: to prevent that, remove the account at the identity provider, or the
groups that give roles.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(func(c *client) error {
				res, err := call(cmd.Context(), c, c.RevokeSessions, &taskenginev1.RevokeSessionsRequest{Person: args[0], By: operator()})
				if err != nil {
					return err
				}
				if a.json() {
					return a.printMessage(res)
				}
				a.note("the sessions of %s have ended", clean(args[0]))
				return nil
			})
		},
	}
}
