package io.github.taskengine.client;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Passes connections on to a node. Of each it passes some bytes of the answers. What the node says
 * then is lost, and ends the connection.
 */
final class Lossy implements AutoCloseable {
  final AtomicInteger lost = new AtomicInteger();

  private final String target;
  private volatile boolean isStalled;
  private final Queue<Integer> limits; // bytes of answers, of one connection after the other
  private final ServerSocket listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
  private final List<Socket> sockets = new CopyOnWriteArrayList<>();

  Lossy(String target, List<Integer> limits) throws IOException {
    this.target = target;
    this.limits = new ArrayDeque<>(limits);
    start(this::serve);
  }

  String address() {
    return "127.0.0.1:" + listener.getLocalPort();
  }

  private static void start(Runnable job) {
    Thread thread = new Thread(job, "lossy");
    thread.setDaemon(true);
    thread.start();
  }

  private void serve() {
    int colon = target.lastIndexOf(':');
    try {
      while (true) {
        Socket near = listener.accept();
        sockets.add(near);
        Socket far =
            new Socket(target.substring(0, colon), Integer.parseInt(target.substring(colon + 1)));
        sockets.add(far);
        Integer limit = limits.poll();
        start(() -> pass(near, far, Integer.MAX_VALUE));
        start(() -> pass(far, near, limit == null ? Integer.MAX_VALUE : limit));
      }
    } catch (IOException e) {
      // it is closed
    }
  }

  private void pass(Socket source, Socket target, int limit) {
    byte[] bytes = new byte[1 << 16];
    boolean isLimited = limit < Integer.MAX_VALUE;
    int left = limit;
    try (source;
        target) {
      InputStream in = source.getInputStream();
      OutputStream out = target.getOutputStream();
      for (int n; (n = in.read(bytes)) >= 0; ) {
        if (isLimited && n > left) {
          lost.incrementAndGet();
          out.write(bytes, 0, left);
          return;
        }
        left -= isLimited ? n : 0;
        if (!isStalled) {
          out.write(bytes, 0, n);
        }
      }
    } catch (IOException e) {
      // the other direction has ended
    }
  }

  /** Has nothing arrive any more. Connections stay open. */
  void stall() {
    isStalled = true;
  }

  /** Ends all connections, and takes no more. */
  void stop() throws IOException {
    listener.close();
    for (Socket socket : sockets) {
      socket.close();
    }
  }

  @Override
  public void close() throws IOException {
    stop();
  }
}
