package io.github.taskengine.handler;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.gson.JsonPrimitive;
import com.google.gson.Strictness;
import com.google.gson.stream.JsonReader;
import com.google.gson.stream.JsonToken;
import java.io.IOException;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * The results of the steps of a task, as they are in its checkpoint. The package steps for Go reads
 * and writes the same. A step is an object of JSON.
 */
final class StepRecord {
  private static final int FORM = 1; // the number of the form of a record

  final int version; // of the code with which the task began
  final long occurrence; // how often a recurring task was due before
  final List<JsonObject> done = new ArrayList<>();

  StepRecord(int version, long occurrence) {
    this.version = version;
    this.occurrence = occurrence;
  }

  /** Reads the checkpoint of a task that begins with a version of the code, or has begun. */
  static StepRecord read(byte[] checkpoint, int version) {
    if (checkpoint.length == 0) {
      return new StepRecord(version, 0);
    }
    try {
      JsonObject record = parse(new String(checkpoint, StandardCharsets.UTF_8)).getAsJsonObject();
      int form = record.has("steps") ? record.get("steps").getAsInt() : 0;
      if (form != 0 && form != FORM) {
        String text = "steps: the steps of the task have the form %d, and this program reads %d";
        throw new HandlerException(text.formatted(form, FORM), "steps_newer");
      }
      if (form == FORM) {
        int began = record.has("version") ? record.get("version").getAsInt() : 0;
        long occurrence = record.has("occurrence") ? record.get("occurrence").getAsLong() : 0;
        StepRecord read = new StepRecord(began == 0 ? version : began, occurrence);
        if (record.get("done") instanceof JsonArray steps) {
          steps.forEach(step -> read.done.add(step.getAsJsonObject()));
        }
        return read;
      }
    } catch (IOException
        | com.google.gson.JsonParseException
        | IllegalStateException
        | UnsupportedOperationException
        | NumberFormatException e) {
      // it is of another kind
    }
    throw changed(
        "the checkpoint of the task is not one of steps: a handler of another kind has begun it");
  }

  /** The checkpoint of the task. */
  byte[] bytes() {
    JsonObject record = new JsonObject();
    record.addProperty("steps", FORM);
    record.addProperty("version", version);
    JsonArray steps = new JsonArray();
    done.forEach(steps::add);
    record.add("done", steps);
    if (occurrence > 0) {
      record.addProperty("occurrence", occurrence);
    }
    byte[] bytes = record.toString().getBytes(StandardCharsets.UTF_8);
    if (bytes.length > Run.MAX_CHECKPOINT_BYTES) {
      String text =
          ("the results of %d steps have %d bytes, of %d allowed: keep large results elsewhere,"
                  + " and have steps return where")
              .formatted(done.size(), bytes.length, Run.MAX_CHECKPOINT_BYTES);
      throw new PermanentException(text, "steps_too_large");
    }
    return bytes;
  }

  /** The error of a task whose steps are not those of the code. */
  static PermanentException changed(String why) {
    return new PermanentException("steps: " + why, "steps_changed");
  }

  static JsonElement parse(String text) throws IOException {
    JsonReader reader = new JsonReader(new StringReader(text));
    reader.setStrictness(Strictness.STRICT);
    JsonElement value = JsonParser.parseReader(reader);
    if (reader.peek() != JsonToken.END_DOCUMENT) {
      throw new IOException("there is more than one value");
    }
    return value;
  }

  static JsonObject step(String kind, String name) {
    JsonObject step = new JsonObject();
    step.addProperty("kind", kind);
    step.addProperty("name", name);
    return step;
  }

  static String text(JsonObject of, String name) {
    return of.get(name) instanceof JsonPrimitive value ? value.getAsString() : "";
  }

  static boolean isSet(JsonObject of, String name) {
    return of.get(name) instanceof JsonPrimitive value && value.getAsBoolean();
  }

  /** The result of a step that is done. */
  static JsonElement result(JsonObject step) {
    JsonElement result = step.get("result");
    return result == null ? JsonNull.INSTANCE : result;
  }

  /** An object in another; an empty one if it is missing. */
  static JsonObject object(JsonObject of, String name) {
    return of.get(name) instanceof JsonObject object ? object : new JsonObject();
  }

  /** A number; 0 if it is missing. */
  static int number(JsonObject of, String name) {
    return of.get(name) instanceof JsonPrimitive value ? value.getAsInt() : 0;
  }

  /**
   * The children of a step: how those of the set have ended since before, which is null for all of
   * them. Counts that are 0 are left out.
   */
  static JsonObject counts(
      int count, int first, @Nullable ChildSet set, @Nullable JsonObject before) {
    JsonObject counts = new JsonObject();
    counts.addProperty("count", count);
    JsonObject from = before == null ? new JsonObject() : before;
    addCount(counts, "from", first);
    if (set != null) {
      addCount(counts, "done", set.done() - number(from, "done"));
      addCount(counts, "failed", set.failed() - number(from, "failed"));
      addCount(counts, "cancelled", set.cancelled() - number(from, "cancelled"));
    }
    return counts;
  }

  private static void addCount(JsonObject counts, String name, int count) {
    if (count > 0) {
      counts.addProperty(name, count);
    }
  }

  static JsonObject of(Woken woken) {
    JsonObject record = new JsonObject();
    record.addProperty("by", woken.by().ordinal() + 1);
    if (woken.by() == Woken.By.SIGNAL) {
      record.addProperty("id", String.valueOf(woken.id()));
      record.addProperty("name", woken.name());
      record.addProperty("at", String.valueOf(woken.at()));
      if (woken.data().length > 0) {
        record.addProperty("data", Base64.getEncoder().encodeToString(woken.data()));
      }
    }
    return record;
  }

  static Woken woken(@Nullable JsonElement record) {
    JsonObject of = record instanceof JsonObject object ? object : new JsonObject();
    int by = of.has("by") ? of.get("by").getAsInt() : 0;
    if (by < 1 || by > Woken.By.values().length) {
      throw changed("the end of the wait of the task cannot be read");
    }
    if (by != 1) {
      return Woken.of(Woken.By.values()[by - 1]);
    }
    byte[] data = Base64.getDecoder().decode(text(of, "data"));
    return new Woken(
        Woken.By.SIGNAL,
        UUID.fromString(text(of, "id")),
        text(of, "name"),
        instant(text(of, "at")),
        data);
  }

  static Instant instant(String text) {
    return OffsetDateTime.parse(text).toInstant();
  }
}
