# together=False: a submit blocks its thread
require "json"
require "sidekiq"

REDIS = { url: ENV.fetch("PEER_REDIS_URL") }
RECORD = File.open(ENV.fetch("PEER_RECORD"), "a")
BULK = 500

def now
  Process.clock_gettime(Process::CLOCK_REALTIME)
end

class Noop
  include Sidekiq::Job

  def perform(number)
    RECORD.syswrite([number, now].pack("q<E"))
  end
end

Sidekiq.configure_client { |config| config.redis = REDIS }
Sidekiq.configure_server do |config|
  config.redis = REDIS
  config.logger.level = Logger::ERROR
end

def pace(count, rate)
  began = now
  Array.new(count) do |number|
    sleep([0.0, began + number / rate - now].max)
    now.tap { Noop.perform_async(number) }
  end
end

def submit(how, count)
  began = now
  if how == "bulk"
    (0...count).each_slice(BULK) { |numbers| Sidekiq::Client.push_bulk("class" => Noop, "args" => numbers.zip) }
  else
    count.times { |number| Noop.perform_async(number) }
  end
  [began, count / (now - began)]
end

if $PROGRAM_NAME == __FILE__
  how, count, rate = ARGV[0], ARGV[1].to_i, ARGV[2].to_f
  puts JSON.generate(how == "pace" ? pace(count, rate) : submit(how, count))
end
