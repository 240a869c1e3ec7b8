"""Results and events to Kafka, in a pipeline file `outputs: {call: kafka_output.py:Kafka}`; needs confluent-kafka.

KAFKA_SERVERS names the brokers. KAFKA_PROPERTIES names a file with more settings of the client, NAME=VALUE in each line: TLS, user,
password (https://docs.confluent.io/platform/current/clients/librdkafka/html/md_CONFIGURATION.html).
"""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

from confluent_kafka import Producer

TOPIC = "edgedla"
#: Results that wait while the brokers are away. Events have the rest of the client's own queue.
MOST_RESULTS = 1000


class Kafka:
    def __init__(self):
        path = os.environ.get("KAFKA_PROPERTIES")
        lines = Path(path).read_text().splitlines() if path else []
        given = [line.partition("=") for line in lines if "=" in line and not line.startswith("#")]
        # An event is kept until the brokers are back, however long that takes.
        settings = {"bootstrap.servers": os.environ.get("KAFKA_SERVERS", "localhost:9092"), "message.timeout.ms": 0}
        settings.update((name.strip(), value.strip()) for name, _, value in given)
        self.producer = Producer(settings, logger=logging.getLogger("kafka"))
        self.waiting = self.sent = self.lost = 0

    def write(self, result):
        if self.waiting < MOST_RESULTS:
            self.produce(TOPIC, result.to_dict())
        else:
            self.producer.poll(0)
            self.lost += 1

    def write_event(self, document):
        self.produce(f"{TOPIC}-events", document)

    def produce(self, topic, document):
        # One camera's messages keep their order: its name is the key.
        self.producer.produce(topic, json.dumps(document), document.get("source", "camera"), on_delivery=self.told)
        self.waiting += 1
        self.producer.poll(0)

    def told(self, error, message):
        self.waiting -= 1
        self.sent += error is None
        self.lost += error is not None

    def close(self):
        self.producer.flush(3)
        if self.waiting or self.lost:
            logging.warning("kafka: %d messages were not sent", self.waiting + self.lost)
