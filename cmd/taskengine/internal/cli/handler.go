package cli

import (
	"context"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/plugins"
)

func newHandler(a *app) *cobra.Command {
	return group("handler", "Write, try and examine handler programs", newHandlerNew(a), newHandlerTest(a), newHandlerVerify(a))
}

// programFlags are the flags of the commands that start a handler program. The program follows
// the flags.
type programFlags struct {
	typ, payload string
	env          []string
}

func (f *programFlags) add(cmd *cobra.Command, typeUsage, payloadUsage string) {
	flags := cmd.Flags()
	flags.StringVar(&f.typ, "type", "", typeUsage)
	flags.StringVar(&f.payload, "payload", "", payloadUsage)
	flags.StringArrayVar(&f.env, "env", nil, "K=V, a variable for the program; may be given more than once")
	flags.SetInterspersed(false)
}

// environ returns the environment of the program.
func (f *programFlags) environ() ([]string, error) {
	for _, v := range f.env {
		if name, _, ok := strings.Cut(v, "="); !ok || name == "" {
			return nil, exit.Errorf(exit.Usage, "--env %.40q is not K=V", v)
		}
	}
	return append(plugins.DefaultEnv(), f.env...), nil
}

// untilSignal returns a context that ends with the first signal to stop, so that the command can
// end the processes that it started.
func untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
}
