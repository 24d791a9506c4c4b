package io.github.taskengine.handler;

import com.google.protobuf.ByteString;
import io.github.taskengine.handler.internal.Wire;
import java.io.InterruptedIOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.channels.ClosedByInterruptException;
import java.time.Duration;
import java.time.Instant;
import java.util.concurrent.CancellationException;
import org.jspecify.annotations.Nullable;

/** Makes the answer to a run from what its handler returned or threw. */
final class Answers {
  private static final int MAX_ERROR_BYTES = 8 << 10;
  private static final int MAX_CAUSES = 64; // that are read: causes may form a cycle

  private final Codec codec;
  private final Host host;

  Answers(Codec codec, Host host) {
    this.codec = codec;
    this.host = host;
  }

  /** The answer of a handler that returned or threw outcome. */
  Wire.Finish of(Run run, @Nullable Object outcome) {
    Wire.Finish.Builder finish = run.end();
    try {
      if (outcome instanceof Throwable thrown) {
        return failure(run, thrown);
      }
      if (outcome instanceof Snooze snooze) {
        long delay = Codec.micros(snooze.delay());
        drop(finish); // the next call will send them again
        return finish.setSnooze(Wire.Snooze.newBuilder().setDelay(delay)).build();
      }
      if (outcome instanceof Ended) {
        drop(finish); // they would go with a finish that is stored
        return ended(finish);
      }
      Wire.Again.Builder message = null;
      if (outcome instanceof Again again) {
        message = Wire.Again.newBuilder().setAt(Codec.micros(again.at()));
        rerun(message, again.result(), again.payload(), again.checkpoint());
      } else if (outcome instanceof WaitFor wait) {
        message = waiting(wait);
        rerun(message, wait.result(), wait.payload(), wait.checkpoint());
      } else if (outcome instanceof WaitForChildren wait) {
        message = waiting(wait);
        rerun(message, wait.result(), wait.payload(), wait.checkpoint());
      } else if (outcome instanceof Sleep sleep) {
        message = sleeping(sleep.delay());
        rerun(message, null, null, sleep.checkpoint());
      }
      if (message != null) {
        return success(run, finish.setAgain(message), message.getResult().size());
      }
      ByteString result = codec.bytes(outcome, "the result");
      return success(run, finish.setResult(result), result.size());
    } catch (Throwable thrown) { // for example a value that cannot be encoded
      return failure(run, thrown);
    }
  }

  /** Removes what goes only with an attempt that has done its work. */
  private static void drop(Wire.Finish.Builder finish) {
    finish.clearChildren().clearSignals().clearDocuments();
  }

  static Wire.Finish refused(long runId, String why) {
    return Wire.Finish.newBuilder()
        .setRunId(runId)
        .setRefused(Wire.Refused.newBuilder().setMessage(Codec.cut(why, MAX_ERROR_BYTES)))
        .build();
  }

  private Wire.Finish ended(Wire.Finish.Builder finish) {
    if (host.serves(Host.ENDED)) {
      return finish.setEnded(Wire.Ended.getDefaultInstance()).build();
    }
    String text =
        "the handler says that it has ended its attempt in a transaction, which this host does not"
            + " look up: if the transaction has committed, this error has no effect";
    return finish
        .setError(Wire.Error.newBuilder().setMessage(text).setClass_("unsupported"))
        .build();
  }

  private Wire.Again.Builder waiting(WaitFor wait) {
    if (!host.serves(Host.WAIT)) {
      throw unsupported("has its task wait for a signal");
    }
    Wire.Wait.Builder names = Wire.Wait.newBuilder();
    wait.names().forEach(name -> names.addNames(Codec.valid("name of a signal", name)));
    return until(wait.timeout(), wait.until()).setWait(names);
  }

  private Wire.Again.Builder waiting(WaitForChildren wait) {
    if (!host.serves(Host.FAMILY) || !host.serves(Host.WAIT)) {
      throw unsupported("has its task wait for children");
    }
    Wire.Wait.Builder waits = Wire.Wait.newBuilder();
    for (ChildrenWait one : wait.waits()) {
      waits
          .addChildrenBuilder()
          .setName(Codec.valid("name of children", one.name()))
          .setCount(one.count())
          .setOrFailed(one.isOrFailed());
    }
    return until(wait.timeout(), wait.until()).setWait(waits);
  }

  private static Wire.Again.Builder until(@Nullable Duration timeout, @Nullable Instant until) {
    Wire.Again.Builder message = Wire.Again.newBuilder();
    if (timeout != null) {
      message.setDelay(Math.max(1, Codec.micros(timeout)));
    } else if (until != null) {
      long at = Codec.micros(until);
      message.setAt(at == 0 ? -1 : at); // 0 is never
    }
    return message;
  }

  private Wire.Again.Builder sleeping(Duration delay) {
    Wire.Again.Builder message = Wire.Again.newBuilder();
    return host.serves(Host.WAIT)
        ? message.setDelay(Math.max(1, Codec.micros(delay)))
        : message.setAt(Codec.micros(Instant.now().plus(delay)));
  }

  /** Adds what a task has when it runs again. */
  private void rerun(
      Wire.Again.Builder message,
      @Nullable Object result,
      @Nullable Object nextPayload,
      @Nullable Object nextCheckpoint) {
    message.setResult(codec.bytes(result, "the result"));
    if (nextPayload != null) {
      message.setPayload(codec.bytes(nextPayload, "the payload to run again with"));
    }
    if (nextCheckpoint != null) {
      message.setCheckpoint(codec.bytes(nextCheckpoint, "the checkpoint to run again with"));
    }
    if ((message.hasPayload() || message.hasCheckpoint()) && !host.serves(Host.RERUN)) {
      throw unsupported("gave a task that runs again a payload or a checkpoint");
    }
    int payload = message.getPayload().size();
    if (host.refusesPayload(payload)) {
      String text =
          "the payload to run again with has %d bytes, max_payload of the type allows %d"
              .formatted(payload, host.maxPayload());
      throw new PermanentException(text, "payload_too_large");
    }
    int checkpoint = message.getCheckpoint().size();
    if (checkpoint > Run.MAX_CHECKPOINT_BYTES) {
      String text =
          "the checkpoint to run again with has %d bytes, of %d allowed"
              .formatted(checkpoint, Run.MAX_CHECKPOINT_BYTES);
      throw new PermanentException(text, "checkpoint_too_large");
    }
  }

  private Wire.Finish success(Run run, Wire.Finish.Builder finish, long size) {
    PermanentException flaw = run.flaw();
    if (flaw != null) { // also if the handler has made something else of it
      return failure(run, flaw);
    }
    if (finish.getChildrenCount() > 0 && !host.serves(Host.CHILDREN)) {
      return failure(run, unsupported("spawned " + finish.getChildrenCount() + " tasks"));
    }
    // Children count too: a frame has no room for more than one large result.
    for (Wire.Child child : finish.getChildrenList()) {
      size += child.getSerializedSize();
    }
    for (Wire.Signal signal : finish.getSignalsList()) {
      size += signal.getSerializedSize();
    }
    if (host.refuses(size)) {
      String text =
          "the result has %d bytes, max_result of the type allows %d"
              .formatted(size, host.maxResult());
      return failure(run, new PermanentException(text, "result_too_large"));
    }
    return finish.build();
  }

  private static PermanentException unsupported(String what) {
    return new PermanentException(
        "the handler " + what + ", which this host does not support", "unsupported");
  }

  private static Wire.Finish failure(Run run, Throwable thrown) {
    Wire.Error.Builder error;
    try {
      error = errorOf(run, thrown);
    } catch (Throwable unreadable) { // the exception's own methods throw, or never return
      String name = className(thrown.getClass());
      error = Wire.Error.newBuilder().setMessage(name + ", which cannot be read").setClass_(name);
      error.setInDoubt(true);
    }
    // An error after the deadline is in doubt, whatever it says: its end may have caused it, and
    // the host has not given the attempt up yet.
    error.setInDoubt(error.getInDoubt() || run.isLate());
    return Wire.Finish.newBuilder().setRunId(run.runId()).setError(error).build();
  }

  private static Wire.Error.Builder errorOf(Run run, Throwable thrown) {
    Wire.Error.Builder error = Wire.Error.newBuilder();
    Cancellation why = run.cancellation().orElse(null);
    if (why != null && endedByCancellation(thrown)) {
      error.setMessage(text(why.describe())).setClass_("cancelled").setInDoubt(true);
    } else if (thrown instanceof HandlerException e) {
      error.setMessage(text(describe(e))).setClass_(text(e.errorClass()));
      error.setPermanent(
          e instanceof PermanentException || e instanceof StepException s && s.isPermanent());
      error.setInDoubt(e instanceof InDoubtException);
      if (e instanceof RetryInException later) {
        error.setRetryDelay(Codec.micros(later.delay()));
      }
    } else {
      // How far the handler came is unknown: it may have thrown this by mistake, or have got no
      // answer from a service.
      error.setMessage(text(stackOf(thrown))).setClass_(className(thrown.getClass()));
      error.setInDoubt(true);
    }
    return error;
  }

  private static boolean endedByCancellation(Throwable thrown) {
    Throwable t = thrown;
    for (int depth = 0; t != null && depth < MAX_CAUSES; depth++, t = t.getCause()) {
      if (t instanceof InterruptedException
          || t instanceof CancellationException
          || t instanceof ClosedByInterruptException
          || t instanceof InterruptedIOException) {
        return true;
      }
    }
    return false;
  }

  private static String describe(HandlerException e) {
    String message = String.valueOf(e.getMessage());
    return e.getCause() == null ? message : message + "\nCaused by: " + stackOf(e.getCause());
  }

  /** The text of an exception and its stack, the most important part first. */
  private static String stackOf(Throwable thrown) {
    try {
      StringWriter stack = new StringWriter();
      thrown.printStackTrace(new PrintWriter(stack));
      return stack.toString();
    } catch (RuntimeException e) {
      return thrown.getClass().getName() + " (its text threw an exception too)";
    }
  }

  static String className(Class<?> type) {
    String name = type.getSimpleName();
    return name.isEmpty() ? className(type.getSuperclass()) : name; // of an anonymous one
  }

  private static String text(String text) {
    return Codec.cut(text, MAX_ERROR_BYTES);
  }
}
