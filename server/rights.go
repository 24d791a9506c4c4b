package server

import (
	"github.com/taskengine/taskengine/internal/access"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// scope is the subject of a method.
type scope uint8

const (
	ofTypes scope = iota // tasks: it checks that the token is for their types, by permit
	ofAll                // objects without a type: the token must be for all types
	ofNone               // nothing: every token will do
)

// right is the requirement of a method for callers with a token.
type right struct {
	role access.Role
	of   scope
}

// isChange reports whether the method changes tasks or types that exist.
func (r right) isChange() bool {
	return r.role == access.Manage || r.role == access.Operate || r.role == access.Admin && r.of == ofTypes
}

// rights are the rights of the methods of the API. docs/operations.md has the same table.
var rights = map[string]right{
	"Submit":             {access.Submit, ofTypes},
	"SubmitWithChildren": {access.Submit, ofTypes},
	"AddChildren":        {access.Submit, ofTypes},
	"SubmitStream":       {access.Submit, ofTypes},
	"SubmitWorkflow":     {access.Submit, ofTypes},
	"Get":                {access.View, ofTypes},
	"List":               {access.View, ofTypes},
	"Count":              {access.View, ofTypes},
	"ListErrors":         {access.View, ofTypes},
	"Wait":               {access.View, ofTypes},
	"Why":                {access.View, ofTypes},
	"Tree":               {access.View, ofTypes},
	"GetWorkflow":        {access.View, ofTypes},
	"TaskLogs":           {access.Submit, ofTypes},
	"Events":             {access.View, ofTypes},
	"Signal":             {access.Submit, ofTypes},
	"ListTypes":          {access.View, ofTypes},
	"Overview":           {access.View, ofTypes},
	"PreviewBulkJob":     {access.View, ofTypes},
	"ListBulkJobs":       {access.View, ofTypes},
	"GetBulkJob":         {access.View, ofTypes},

	"GetDocument":      {access.View, ofAll},
	"ListDocuments":    {access.View, ofAll},
	"ListKeys":         {access.View, ofAll},
	"GetKey":           {access.View, ofAll},
	"ListWorkers":      {access.View, ofAll},
	"ListNodes":        {access.View, ofAll},
	"ListLimits":       {access.View, ofAll},
	"GetLimit":         {access.View, ofAll},
	"WatchLimits":      {access.View, ofAll},
	"WhyLimit":         {access.View, ofAll},
	"ListAlerts":       {access.View, ofAll},
	"ListSchedules":    {access.View, ofAll},
	"GetSchedule":      {access.View, ofAll},
	"PreviewSchedule":  {access.View, ofAll},
	"ListSources":      {access.View, ofAll},
	"GetSource":        {access.View, ofAll},
	"ListSliceSources": {access.View, ofAll},
	"GetSliceSource":   {access.View, ofAll},
	"ListPlatforms":    {access.View, ofAll},
	"GetPlatform":      {access.View, ofAll},

	"Cancel":          {access.Manage, ofTypes},
	"Resume":          {access.Manage, ofTypes},
	"Fail":            {access.Manage, ofTypes},
	"Reschedule":      {access.Manage, ofTypes},
	"RetryWorkflow":   {access.Manage, ofTypes},
	"PauseType":       {access.Manage, ofTypes},
	"SetTask":         {access.Manage, ofTypes},
	"DeleteTask":      {access.Admin, ofTypes},
	"StartBulkJob":    {access.Manage, ofTypes},
	"PauseBulkJob":    {access.Manage, ofTypes},
	"ContinueBulkJob": {access.Manage, ofTypes},
	"SetBulkJobRate":  {access.Manage, ofTypes},
	"StopBulkJob":     {access.Manage, ofTypes},
	"ResumeType":      {access.Manage, ofTypes},

	"SetDocument":      {access.Manage, ofAll},
	"DeleteDocument":   {access.Manage, ofAll},
	"ResumeKey":        {access.Manage, ofAll},
	"SkipKey":          {access.Manage, ofAll},
	"DrainWorker":      {access.Manage, ofAll},
	"SetLimit":         {access.Manage, ofAll},
	"UnsetLimit":       {access.Manage, ofAll},
	"SilenceAlerts":    {access.Manage, ofAll},
	"UnsilenceAlerts":  {access.Manage, ofAll},
	"PauseSchedule":    {access.Manage, ofAll},
	"ResumeSchedule":   {access.Manage, ofAll},
	"PauseSchedules":   {access.Manage, ofAll},
	"ResumeSchedules":  {access.Manage, ofAll},
	"TriggerSchedule":  {access.Manage, ofAll},
	"BackfillSchedule": {access.Manage, ofAll},
	"PauseSource":      {access.Manage, ofAll},
	"ResumeSource":     {access.Manage, ofAll},
	"SeekSource":       {access.Manage, ofAll},
	"SetSlices":        {access.Manage, ofAll},
	"AddPlatform":      {access.Manage, ofAll},
	"ApplyPlatforms":   {access.Manage, ofAll},
	"RemovePlatform":   {access.Manage, ofAll},
	"PauseSlices":      {access.Manage, ofAll},
	"ResumeSlices":     {access.Manage, ofAll},
	"ResetPlatform":    {access.Manage, ofAll},
	"RetrySlices":      {access.Manage, ofAll},

	"DrainNode":       {access.Admin, ofAll},
	"ApplyConfig":     {access.Admin, ofAll},
	"ApplySchedule":   {access.Admin, ofAll},
	"ApplySchedules":  {access.Admin, ofAll},
	"DeleteSchedule":  {access.Admin, ofAll},
	"DeleteSchedules": {access.Admin, ofAll},
	"TestAlerts":      {access.Admin, ofAll},
	"AddToken":        {access.Admin, ofAll},
	"ListTokens":      {access.Admin, ofAll},
	"RevokeToken":     {access.Admin, ofAll},
	"RotateToken":     {access.Admin, ofAll},
	"RevokeSessions":  {access.Admin, ofAll},

	"Version": {"", ofNone},
}

// procedures is the prefix of the paths of the methods of the API.
const procedures = "/" + taskenginev1connect.TaskServiceName + "/"
