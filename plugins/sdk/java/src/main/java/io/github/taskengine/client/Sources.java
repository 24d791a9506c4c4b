package io.github.taskengine.client;

import io.github.taskengine.client.internal.Api;
import java.util.List;

/** Reads and orders sources of tasks: {@link TaskengineClient#sources}. */
public final class Sources {
  private final Calls calls;
  private final long timeout;

  Sources(Calls calls, long timeout) {
    this.calls = calls;
    this.timeout = timeout;
  }

  /**
   * The sources in the configuration of the node.
   *
   * @return the sources by name, without their partitions
   */
  public List<Source> list() {
    Api.ListSourcesRequest request = Api.ListSourcesRequest.getDefaultInstance();
    return Messages.all(
        calls.make(Methods.LIST_SOURCES, request, true, timeout).getSourcesList(),
        Messages::source);
  }

  /**
   * A source.
   *
   * @param name of the source
   * @return the source with its partitions
   */
  public Source get(String name) {
    Api.GetSourceRequest request = Api.GetSourceRequest.newBuilder().setName(name).build();
    return Messages.source(calls.make(Methods.GET_SOURCE, request, true, timeout).getSource());
  }

  /**
   * Stops a source from reading until {@link #resume}. It is carried out when orders of {@link
   * #get} is 0.
   *
   * @param name of the source
   * @param reason for it; may be empty
   * @return the source
   */
  public Source pause(String name, String reason) {
    Api.PauseSourceRequest request =
        Api.PauseSourceRequest.newBuilder().setName(name).setReason(reason).build();
    return Messages.source(calls.make(Methods.PAUSE_SOURCE, request, true, timeout).getSource());
  }

  /**
   * Ends a pause. It is carried out when orders of {@link #get} is 0.
   *
   * @param name of the source
   * @return the source
   */
  public Source resume(String name) {
    Api.ResumeSourceRequest request = Api.ResumeSourceRequest.newBuilder().setName(name).build();
    return Messages.source(calls.make(Methods.RESUME_SOURCE, request, true, timeout).getSource());
  }

  /**
   * Moves the positions of a source. Records that are read again become tasks once more.
   *
   * @param name of the source
   * @param to where it goes
   * @param dryRun only returns where the partitions would go
   * @return where each partition goes; none if the brokers do not say that now
   */
  public List<SourceMove> seek(String name, SourceSeek to, boolean dryRun) {
    return Messages.all(
        calls.make(Methods.SEEK_SOURCE, to.message(name, dryRun), dryRun, timeout).getMovesList(),
        Messages::move);
  }
}
