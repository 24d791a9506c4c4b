package io.github.taskengine.client;

import io.github.taskengine.client.internal.Api;

/** Lists types of tasks and pauses them: {@link TaskengineClient#types}. */
public final class TaskTypes {
  private final Calls calls;
  private final long timeout;

  TaskTypes(Calls calls, long timeout) {
    this.calls = calls;
    this.timeout = timeout;
  }

  /**
   * The types that are configured, were paused or resumed, or have tasks. With a store in files,
   * types that have only ended tasks are left out.
   *
   * @return the types
   */
  public TypeList list() {
    Api.ListTypesRequest request = Api.ListTypesRequest.getDefaultInstance();
    Api.ListTypesResponse answer = calls.make(OperationMethods.LIST_TYPES, request, true, timeout);
    return new TypeList(
        Messages.all(answer.getTypesList(), OperationMessages::type), answer.getMore());
  }

  /**
   * Keeps tasks of a type from being started on all nodes, also over restarts. Running tasks go on,
   * and new tasks are accepted.
   *
   * @param type of the tasks
   */
  public void pause(String type) {
    Api.PauseTypeRequest request = Api.PauseTypeRequest.newBuilder().setType(type).build();
    calls.make(OperationMethods.PAUSE_TYPE, request, true, timeout);
  }

  /**
   * Lets tasks of a type be started again.
   *
   * @param type of the tasks
   */
  public void resume(String type) {
    Api.ResumeTypeRequest request = Api.ResumeTypeRequest.newBuilder().setType(type).build();
    calls.make(OperationMethods.RESUME_TYPE, request, true, timeout);
  }
}
