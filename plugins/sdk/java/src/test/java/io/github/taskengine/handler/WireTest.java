package io.github.taskengine.handler;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Message;
import com.google.protobuf.util.JsonFormat;
import io.github.taskengine.handler.internal.Wire;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** The generated messages against the vectors that the Go messages made. */
class WireTest {
  private static final Map<String, Message> MESSAGES =
      Map.of(
          "ToHandler", Wire.ToHandler.getDefaultInstance(),
          "FromHandler", Wire.FromHandler.getDefaultInstance());

  private static List<JsonNode> vectors() throws Exception {
    byte[] file = Files.readAllBytes(Path.of(System.getProperty("taskengine.vectors")));
    return StreamSupport.stream(new JsonMapper().readTree(file).spliterator(), false).toList();
  }

  @Test
  void thereAreVectorsOfBothDirections() throws Exception {
    for (String message : MESSAGES.keySet()) {
      long count =
          vectors().stream().filter(v -> v.get("message").stringValue().equals(message)).count();
      assertTrue(count > 3, message);
    }
  }

  @TestFactory
  Stream<DynamicTest> framesAreByteForByteThoseOfGo() throws Exception {
    return vectors().stream()
        .map(
            vector ->
                DynamicTest.dynamicTest(vector.get("name").stringValue(), () -> check(vector)));
  }

  private static void check(JsonNode vector) throws Exception {
    byte[] bytes = HexFormat.of().parseHex(vector.get("hex").stringValue());
    Message prototype = MESSAGES.get(vector.get("message").stringValue());
    Message.Builder wanted = prototype.newBuilderForType();
    JsonFormat.parser().merge(vector.get("json").toString(), wanted);
    Message read = prototype.getParserForType().parseFrom(bytes);
    assertEquals(wanted.build(), read);
    assertEquals(HexFormat.of().formatHex(bytes), HexFormat.of().formatHex(read.toByteArray()));
  }
}
