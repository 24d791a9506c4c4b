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

// rights are the rights of the methods of the API. docs/operations.md has the same table.
var rights = map[string]right{
	"Submit":             {access.Submit, ofTypes},
	"SubmitWithChildren": {access.Submit, ofTypes},
	"AddChildren":        {access.Submit, ofTypes},
	"SubmitStream":       {access.Submit, ofTypes},
	"SubmitWorkflow":     {access.Submit, ofTypes},
	"Get":                {access.Submit, ofTypes},
	"List":               {access.Submit, ofTypes},
	"Count":              {access.Submit, ofTypes},
	"ListErrors":         {access.Submit, ofTypes},
	"Wait":               {access.Submit, ofTypes},
	"Why":                {access.Submit, ofTypes},
	"Tree":               {access.Submit, ofTypes},
	"GetWorkflow":        {access.Submit, ofTypes},
	"TaskLogs":           {access.Submit, ofTypes},
	"Signal":             {access.Submit, ofTypes},
	"ListTypes":          {access.Submit, ofTypes},
	"PreviewBulkJob":     {access.Submit, ofTypes},
	"ListBulkJobs":       {access.Submit, ofTypes},
	"GetBulkJob":         {access.Submit, ofTypes},

	"ListKeys":         {access.Submit, ofAll},
	"GetKey":           {access.Submit, ofAll},
	"ListWorkers":      {access.Submit, ofAll},
	"ListLimits":       {access.Submit, ofAll},
	"GetLimit":         {access.Submit, ofAll},
	"WatchLimits":      {access.Submit, ofAll},
	"WhyLimit":         {access.Submit, ofAll},
	"ListAlerts":       {access.Submit, ofAll},
	"ListSchedules":    {access.Submit, ofAll},
	"GetSchedule":      {access.Submit, ofAll},
	"PreviewSchedule":  {access.Submit, ofAll},
	"ListSources":      {access.Submit, ofAll},
	"GetSource":        {access.Submit, ofAll},
	"ListSliceSources": {access.Submit, ofAll},
	"GetSliceSource":   {access.Submit, ofAll},
	"ListPlatforms":    {access.Submit, ofAll},
	"GetPlatform":      {access.Submit, ofAll},

	"Cancel":          {access.Operate, ofTypes},
	"Resume":          {access.Operate, ofTypes},
	"Fail":            {access.Operate, ofTypes},
	"Reschedule":      {access.Operate, ofTypes},
	"RetryWorkflow":   {access.Operate, ofTypes},
	"PauseType":       {access.Operate, ofTypes},
	"StartBulkJob":    {access.Operate, ofTypes},
	"PauseBulkJob":    {access.Operate, ofTypes},
	"ContinueBulkJob": {access.Operate, ofTypes},
	"SetBulkJobRate":  {access.Operate, ofTypes},
	"StopBulkJob":     {access.Operate, ofTypes},
	"ResumeType":      {access.Operate, ofTypes},

	"ResumeKey":        {access.Operate, ofAll},
	"SkipKey":          {access.Operate, ofAll},
	"DrainWorker":      {access.Operate, ofAll},
	"SetLimit":         {access.Operate, ofAll},
	"UnsetLimit":       {access.Operate, ofAll},
	"SilenceAlerts":    {access.Operate, ofAll},
	"UnsilenceAlerts":  {access.Operate, ofAll},
	"PauseSchedule":    {access.Operate, ofAll},
	"ResumeSchedule":   {access.Operate, ofAll},
	"PauseSchedules":   {access.Operate, ofAll},
	"ResumeSchedules":  {access.Operate, ofAll},
	"TriggerSchedule":  {access.Operate, ofAll},
	"BackfillSchedule": {access.Operate, ofAll},
	"PauseSource":      {access.Operate, ofAll},
	"ResumeSource":     {access.Operate, ofAll},
	"SeekSource":       {access.Operate, ofAll},
	"SetSlices":        {access.Operate, ofAll},
	"AddPlatform":      {access.Operate, ofAll},
	"RemovePlatform":   {access.Operate, ofAll},
	"PauseSlices":      {access.Operate, ofAll},
	"ResumeSlices":     {access.Operate, ofAll},
	"ResetPlatform":    {access.Operate, ofAll},
	"RetrySlices":      {access.Operate, ofAll},

	"ApplySchedule":   {access.Admin, ofAll},
	"ApplySchedules":  {access.Admin, ofAll},
	"DeleteSchedule":  {access.Admin, ofAll},
	"DeleteSchedules": {access.Admin, ofAll},
	"TestAlerts":      {access.Admin, ofAll},

	"Version": {"", ofNone},
}

// procedures is the prefix of the paths of the methods of the API.
const procedures = "/" + taskenginev1connect.TaskServiceName + "/"
