package dashboard

import "slices"

// pages returns all pages, in the order of the navigation.
func pages() []page {
	return []page{
		overviewPage(), tasksPage(), errorsPage(), bulkPage(), limitsPage(), schedulesPage(), sourcesPage(), workflowsPage(), documentsPage(), nodesPage(), alertsPage(), planPage(),
		taskPage(), linesPage(), editPage(), newJobPage(), jobPage(), limitPage(), schedulePage(), topicPage(), platformsPage(), platformPage(), workflowPage(), documentPage(),
	}
}

// actions returns the handlers of the forms of all pages.
func actions() []action {
	return slices.Concat(taskActions(), bulkActions(), scheduleActions(), sourceActions(), platformActions(), alertActions(), workflowActions())
}
