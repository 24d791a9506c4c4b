package cli

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/config"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/workflow"
)

func newWorkflowSubmit(a *app) *cobra.Command {
	req := new(taskenginev1.SubmitWorkflowRequest)
	var f addFlags
	var input string
	cmd := &cobra.Command{
		Use:   "submit NAME | --file FILE",
		Short: "Add a workflow of the node's configuration, or of a file",
		Long: `Add a workflow: NAME is one of workflows in the configuration of the node. With --file, the
definition is that of a file in YAML or JSON, with steps as in the configuration. The id of
the workflow, which is a task, is written.`,
		Args: func(_ *cobra.Command, args []string) error {
			if (len(args) == 1) == (f.file != "") || len(args) > 1 {
				return fmt.Errorf("want either the NAME of a workflow, or --file")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("timeout") && !f.wait {
				return exit.Errorf(exit.Usage, "--timeout goes with --wait")
			}
			if err := f.workflow(cmd, a, req, args, input); err != nil {
				return err
			}
			return a.with(func(c *client) error {
				res, err := call(cmd.Context(), c, c.SubmitWorkflow, req)
				if err != nil {
					return err
				}
				if !f.wait {
					return a.showReceipt(res.GetReceipt())
				}
				a.warnOf(res.GetReceipt())
				return a.awaitAdded(cmd.Context(), c, res.GetReceipt().GetId(), time.Duration(f.timeout))
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "file", "f", "", "the file of a definition, in YAML or JSON")
	flags.StringVar(&input, "input", "", "JSON that the steps may refer to, or @FILE or - for that of a file or of standard input")
	flags.StringVar(&f.key, "key", "", "unique among all workflows; if it is taken, nothing is added")
	flags.StringVar(&f.id, "id", "", "the id of the workflow, a UUID; it is added once however often it is asked for")
	flags.Uint32Var(&f.priority, "priority", 0, "0 (sooner) to 9 (later), of the workflow and not of its tasks")
	flags.Var(&f.in, "in", "not before so long from now, such as 90s or 2d")
	flags.Var(&f.at, "at", "not before this time, such as 2026-12-24T18:00:00Z")
	flags.StringArrayVar(&f.headers, "header", nil, "k=v, kept with the workflow; may be given more than once")
	flags.BoolVar(&f.wait, "wait", false, "wait for the workflow to end, and show its task")
	flags.Var(&f.timeout, "timeout", "how long to wait; without it, for ever")
	return cmd
}

// workflow completes the request that the flags describe.
func (f *addFlags) workflow(cmd *cobra.Command, a *app, req *taskenginev1.SubmitWorkflowRequest, args []string, input string) error {
	if input != "" {
		data, err := readData(input, a.stdin)
		if err != nil {
			return err
		}
		req.Input = string(data)
	}
	t, err := f.task(cmd, a.stdin, workflow.Type)
	if err != nil {
		return err
	}
	a.name(t) // so that it can be asked again
	req.Id, req.Key, req.Priority, req.At, req.In, req.Headers = t.GetId(), t.GetKey(), t.Priority, t.GetAt(), t.GetIn(), t.GetHeaders()
	if f.file == "" {
		req.Name = args[0]
		return nil
	}
	text, err := os.ReadFile(f.file)
	if err != nil {
		return exit.Errorf(exit.Usage, "read the workflow: %v", err)
	}
	d, err := config.ParseWorkflow(f.file, text)
	if err != nil {
		return exit.Errorf(exit.Usage, "%v", err)
	}
	definition, err := workflow.Encode(d)
	req.Definition = string(definition)
	return err
}

func newWorkflowShow(a *app) *cobra.Command {
	req := new(taskenginev1.GetWorkflowRequest)
	cmd := &cobra.Command{
		Use:   "show ID | --key KEY",
		Short: "Show a workflow and its steps",
		Args: func(_ *cobra.Command, args []string) error {
			if (len(args) == 1) == (req.GetKey() != "") || len(args) > 1 {
				return fmt.Errorf("want either the ID of a workflow, or --key")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			req.Id = strings.Join(args, "")
			return a.with(func(c *client) (err error) {
				if req.Id, err = c.taskID(cmd.Context(), req.GetId()); err != nil {
					return err
				}
				res, err := call(cmd.Context(), c, c.GetWorkflow, req)
				if err != nil {
					return aboutTask(req.GetId()+req.GetKey(), err)
				}
				return a.showWorkflow(res.GetWorkflow())
			})
		},
	}
	cmd.Flags().StringVar(&req.Key, "key", "", "the key of the workflow")
	return cmd
}

func newWorkflowCancel(a *app) *cobra.Command {
	req := &taskenginev1.CancelRequest{Tree: true}
	cmd := &cobra.Command{
		Use:   "cancel ID",
		Short: "Cancel a workflow and its tasks; nothing is compensated",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(func(c *client) (err error) {
				if req.Id, err = c.taskID(cmd.Context(), args[0]); err != nil {
					return err
				}
				return a.cancelTree(cmd.Context(), c, req)
			})
		},
	}
	cmd.Flags().StringVar(&req.Reason, "reason", "", "why; kept as the error of the tasks")
	return cmd
}

func newWorkflowRetry(a *app) *cobra.Command {
	req := new(taskenginev1.RetryWorkflowRequest)
	cmd := &cobra.Command{
		Use:   "retry ID",
		Short: "Run a workflow again that has failed, was cancelled or is in error",
		Long: `Run a workflow again that has failed, was cancelled or is in error. Steps that have failed, were
stopped or were compensated run anew, and the steps after them. With --from, so do that step and
all after it. Everything else stays done.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(func(c *client) (err error) {
				if req.Id, err = c.taskID(cmd.Context(), args[0]); err != nil {
					return err
				}
				res, err := call(cmd.Context(), c, c.RetryWorkflow, req)
				if err != nil {
					return aboutTask(req.GetId(), err)
				}
				return a.showWorkflow(res.GetWorkflow())
			})
		},
	}
	cmd.Flags().StringVar(&req.From, "from", "", "the name of a step that runs anew, with all after it")
	cmd.Flags().Uint64Var(&req.Version, "version", 0, "only if its task is at this version; 0 is at any")
	return cmd
}

// showWorkflow writes a workflow and its steps.
func (a *app) showWorkflow(w *taskenginev1.Workflow) error {
	if a.json() {
		return a.printMessage(w)
	}
	f := new(facts)
	f.add("workflow", w.GetName())
	f.add("task", w.GetTask().GetId())
	f.add("state", w.GetTask().GetState())
	if w.GetRetries() > 0 {
		f.add("retries", fmt.Sprint(w.GetRetries()))
	}
	f.add("error", w.GetTask().GetError())
	f.add("output", w.GetOutput())
	if _, err := fmt.Fprintln(a.stdout, f.String()); err != nil {
		return err
	}
	now := time.Now()
	var rows [][]string
	for _, s := range w.GetSteps() {
		rows = append(rows, a.stepRow(s.GetName(), s, now))
		if c := s.GetCompensation(); c != nil {
			rows = append(rows, a.stepRow("  compensate", c, now))
		}
	}
	return a.printTable([]string{"STEP", "STATE", "TYPE", "TASKS", "BEGAN", "ENDED", "WAITS FOR", "TASK", "ERROR"}, rows, "BEGAN", "TYPE", "ENDED")
}

func (a *app) stepRow(name string, s *taskenginev1.WorkflowStep, now time.Time) []string {
	tasks := ""
	if s.GetCount() > 0 {
		tasks = fmt.Sprintf("%d/%d", s.GetDone(), s.GetCount())
		if n := s.GetFailed() + s.GetCancelled(); n > 0 {
			tasks += fmt.Sprintf(" (%d not)", n)
		}
	}
	waits := strings.Join(s.GetWaits(), ", ")
	if s.GetState() == "running" && s.GetSignal() != "" {
		waits = "signal " + s.GetSignal()
	}
	if s.GetUntil() != nil {
		waits = strings.TrimSpace(waits + " until " + when(s.GetUntil()))
	}
	task := ""
	if len(s.GetTaskIds()) > 0 {
		task = s.GetTaskIds()[0]
	}
	return []string{name, s.GetState(), s.GetType(), tasks, a.moment(s.GetBegan(), now), a.moment(s.GetEnded(), now), waits, task, s.GetError()}
}
