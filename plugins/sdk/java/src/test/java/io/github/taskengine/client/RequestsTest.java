package io.github.taskengine.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.github.taskengine.client.internal.Api;
import io.github.taskengine.internal.Address;
import io.github.taskengine.json.Json;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.UUID;
import java.util.function.UnaryOperator;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/** The ids and the messages of requests. */
class RequestsTest {
  private final Requests requests =
      new Requests(Json.standard(), UnaryOperator.identity(), new Ids());

  record Mail(String to, @Nullable Integer size) {}

  private Api.NewTask message(Request request) {
    return requests.message(request);
  }

  @Test
  void idsAreInTheShardsOfGoAndIncreaseWhateverTheClockDoes() {
    Ids ids = new Ids(() -> 0x0190a6f07c3eL, bytes -> fill(bytes));
    assertEquals("0190a6f0-7c3e-7000-8102-030405060708", ids.next("mail", "", ""));
    List<Integer> shards = new ArrayList<>();
    for (String id : List.of(ids.next("mail", "k", ""), ids.next("mail", "k", "käy"))) {
      UUID u = UUID.fromString(id);
      long head = u.getMostSignificantBits();
      shards.add((int) ((head >>> 32 ^ head ^ u.getLeastSignificantBits()) & 0xFF));
    }
    assertEquals(List.of(0x93, 0xcc), shards); // task.BoundShard
    Iterator<Long> clock = List.of(5L, 5L, 4L, -1L, 6L).iterator();
    Ids stepping = new Ids(() -> clock.hasNext() ? clock.next() : 6L, bytes -> fill(bytes));
    List<String> made = new ArrayList<>();
    for (int i = 0; i < 10_000; i++) {
      made.add(stepping.next("t", "", ""));
    }
    assertEquals(made, new ArrayList<>(new TreeSet<>(made)));
  }

  private static void fill(byte[] bytes) {
    for (int i = 0; i < bytes.length; i++) {
      bytes[i] = (byte) (i % 8 + 1);
    }
  }

  private String payload(@Nullable Object value) {
    Api.NewTask message = message(Request.of("t").payload(value));
    return message.hasPayload()
        ? message.getPayload().toString(StandardCharsets.ISO_8859_1)
        : "none";
  }

  @Test
  void aPayloadIsJsonOrWhatWasGiven() {
    assertEquals("none", payload(null));
    assertEquals("\u00ff", payload(new byte[] {(byte) 0xff}));
    assertEquals("Ã¤", payload("ä"));
    assertEquals("{\"to\":\"a\",\"size\":null}", payload(new Mail("a", null)));
    assertEquals("{\"a\":[1,2]}", payload(Map.of("a", List.of(1, 2))));
    assertEquals("0", payload(0));
    assertEquals("\"1970-01-01T00:00:00Z\"", payload(Instant.EPOCH));
  }

  @Test
  void aTaskHasAllThatItWasGiven() {
    Request request =
        Request.of("t")
            .payload("p")
            .id("i")
            .key("k")
            .orderingKey("o")
            .priority(0)
            .delay(Duration.ofMillis(-1500))
            .at(Instant.ofEpochMilli(-500))
            .expiresAt(Instant.ofEpochSecond(2, 500))
            .headers(Map.of("a", "own", "", "b"));
    Api.NewTask message = requests.message(request);
    assertEquals(
        List.of("i", "t", "k", "o", "p"),
        List.of(
            message.getId(),
            message.getType(),
            message.getKey(),
            message.getOrderingKey(),
            message.getPayload().toStringUtf8()));
    assertEquals(true, message.hasPriority());
    assertEquals(0, message.getPriority());
    assertEquals(
        List.of(-1L, -500_000_000),
        List.of(message.getIn().getSeconds(), message.getIn().getNanos()));
    assertEquals(
        List.of(-1L, 500_000_000),
        List.of(message.getAt().getSeconds(), message.getAt().getNanos()));
    assertEquals(500, message.getExpiresAt().getNanos());
    assertEquals(Map.of("a", "own", "", "b"), message.getHeadersMap());
    assertEquals(Duration.ofMillis(-1500), Times.duration(message.getIn()));
    assertEquals(Instant.ofEpochMilli(-500), Times.instant(message.getAt()));
  }

  @Test
  void whatCannotBeSentIsInvalid() {
    List<Object> loop = new ArrayList<>();
    loop.add(loop);
    for (Request wrong :
        Arrays.asList(
            Request.of("t").payload(loop),
            Request.of("t").key("\ud800"),
            Request.of("t\udc00"),
            Request.of("t").headers(Map.of("a", "\ud800a")))) {
      InvalidException e = assertThrows(InvalidException.class, () -> message(wrong), wrong::type);
      assertEquals("invalid_argument", e.code());
    }
    assertEquals("\ud83d\ude00", message(Request.of("t").key("\ud83d\ude00")).getKey());
    assertThrows(IllegalArgumentException.class, () -> Request.of(""));
    assertThrows(IllegalArgumentException.class, () -> Request.of("t").priority(10));
  }

  @Test
  void aCallThatTheNodeHasCancelledHasExceededItsDeadline() {
    assertInstanceOf(
        DeadlineExceededException.class, Failure.ofCode("canceled", "", "", "").exception());
  }

  @Test
  void anAddressThatIsNoneIsInvalid() {
    for (String bad :
        List.of(
            "",
            ":80",
            "unix:",
            "http://a/b",
            "ftp://a:1",
            "http://u@a:1",
            "a b:1",
            "http://a:x",
            "https://",
            "http://a?b")) {
      assertThrows(InvalidException.class, () -> TaskengineClient.to(bad), bad);
    }
    assertThrows(InvalidException.class, TaskengineClient::to);
    assertEquals("a:443", Address.of("https://a").target());
    assertEquals("[::1]:80", Address.of("http://[::1]/").target());
    assertEquals("unix:/s", Address.of("unix:/s").target());
    assertEquals("[::1]:7420", Address.of("[::1]:7420").target());
  }
}
