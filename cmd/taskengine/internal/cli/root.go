package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// defaultAddress is the address of a node's API unless its configuration names another.
const defaultAddress = "127.0.0.1:7420"

// suggestWithin is the largest edit distance, in letters, of a suggested command.
const suggestWithin = 2

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "taskengine",
		Short: "A durable task engine",
		Long: `taskengine keeps tasks durably, finds the next one to run, and hands it to a handler.

"taskengine run" is a node. The other commands speak with one.

` + exitCodesHelp(),
		Args:          unknownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceUsage:  true,
		SilenceErrors: true,

		SuggestionsMinimumDistance: suggestWithin,
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	flags := root.PersistentFlags()
	flags.StringVar(&a.address, "address", a.getenv("TASKENGINE_ADDRESS", defaultAddress), "the address of the node's API: host:port, a URL or unix:PATH, with commas between several nodes; the first one that accepts a connection is used; TASKENGINE_ADDRESS sets it, too")
	a.encryption.add(flags, a)
	flags.StringVar(&a.tokenFile, "token-file", "", "file of the token that the node wants; without it, the token is that of TASKENGINE_TOKEN")
	flags.VarP(&a.output, "output", "o", "how to show data: table, wide (all columns), name, json, yaml, or template=TEXT")
	root.AddCommand(
		newInit(a), newRun(a), newDev(a), newTestServer(a),
		group("config", "Check and show configurations", newConfigCheck(a), newConfigShow(a), newConfigDiff(a), newConfigApply(a), newConfigSchema(a)),
		group("task", "Add, look at and manage tasks",
			newTaskAdd(a), newTaskGet(a), newTaskList(a), newTaskCount(a), newTaskWait(a), newTaskWhy(a), newTaskTree(a), newTaskLogs(a),
			newTaskCancel(a), newTaskResume(a), newTaskFail(a), newTaskReschedule(a), newTaskSet(a), newTaskDelete(a), newTaskErase(a), newTaskSignal(a)),
		newErrors(a), newEvents(a), newTop(a), newHealth(a),
		group("bulk", "Look at bulk jobs, which change many tasks on the server, and pause and stop them",
			newBulkList(a), newBulkShow(a), newBulkWait(a), newBulkPause(a), newBulkContinue(a), newBulkRate(a), newBulkStop(a), newBulkUndo(a)),
		group("document", "Look at documents, which tasks share, and write and delete them",
			newDocumentGet(a), newDocumentList(a), newDocumentSet(a), newDocumentDelete(a)),
		group("key", "Look at ordering keys, and go on after an error of one",
			newKeyList(a), newKeyShow(a), newKeyResume(a), newKeySkip(a)),
		group("type", "Look at, pause and resume types of tasks", newTypeList(a), newTypePause(a), newTypeResume(a)),
		group("node", "Look at the nodes of a cluster, and drain them", newNodeList(a), newNodeShow(a), newNodeDrain(a)),
		group("worker", "Look at workers that are connected to nodes, and drain them", newWorkerList(a), newWorkerDrain(a)),
		group("limit", "Look at limits of tasks, and change them while nodes run",
			newLimitList(a), newLimitGet(a), newLimitSet(a), newLimitUnset(a), newLimitPause(a), newLimitResume(a), newLimitWatch(a), newLimitWhy(a)),
		group("alert", "Look at alerts, silence them, and test where they go",
			newAlertList(a), newAlertTest(a), newAlertSilence(a), newAlertUnsilence(a)),
		group("schedule", "Look at schedules, and change them while nodes run",
			newScheduleList(a), newScheduleShow(a), newSchedulePreview(a), newScheduleApply(a), newScheduleDelete(a),
			newSchedulePause(a), newScheduleResume(a), newScheduleTrigger(a), newScheduleBackfill(a)),
		group("workflow", "Submit workflows, and look at, cancel and retry them",
			newWorkflowSubmit(a), newWorkflowShow(a), newWorkflowCancel(a), newWorkflowRetry(a)),
		group("source", "Look at sources of tasks, such as topics of Kafka and time slices of platforms, and order them",
			newSourceList(a), newSourceShow(a), newSourcePause(a), newSourceResume(a), newSourceSeek(a),
			newSourceSet(a), newSourceAdd(a), newSourceRemove(a), newSourceApply(a), newSourceExport(a), newSourceReset(a), newSourceRetry(a)),
		group("token", "Make, list and revoke the tokens of clients, which the cluster keeps, or a file",
			newTokenAdd(a), newTokenList(a), newTokenRevoke(a), newTokenRotate(a), newTokenCreate(a)),
		group("session", "End sessions of people at the dashboard", newSessionRevoke(a)),
		newUpgrade(a), newMigrate(a), newShards(a), newCoordination(a), newCopy(a), newBackup(a), newRestore(a), newDoctor(a),
		newHandler(a),
		newBench(a),
		newCapacity(a),
		group("service", "Install a node as a service of this machine", newServiceInstall(a), newServiceStatus(a), newServiceUninstall(a)),
		newMan(a),
		newVersion(a),
	)
	nameArguments(root)
	a.addTableFlags(root)
	a.completeAll(root)
	root.SetFlagErrorFunc(flagError)
	root.SetUsageFunc(a.printUsage)
	root.SetHelpFunc(a.printHelp)
	return root
}

// group returns a command that only has subcommands.
func group(name, short string, commands ...*cobra.Command) *cobra.Command {
	g := &cobra.Command{
		Use: name, Short: short, Args: unknownCommand, SuggestionsMinimumDistance: suggestWithin,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	g.AddCommand(commands...)
	return g
}

// unknownCommand refuses the arguments of a command that only has subcommands.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	advice := fmt.Sprintf("see %s --help", cmd.CommandPath())
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		advice = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return fmt.Errorf("%s has no command %q; %s", cmd.CommandPath(), args[0], advice)
}
